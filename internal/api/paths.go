package api

import (
	"net/url"
	"strings"
)

// paths are the places of the routes. They are matched here and not by
// [http.ServeMux]: that one redirects an unclean path, so that a POST comes back
// as a GET, and has no way to name an id that is a single slash.
type paths []*place

// place is one path with its routes by method.
type place struct {
	pattern  string
	segments []string // "{name}" takes any segment that is not empty
	routes   map[string]*route
}

func newPaths(routes []*route) paths {
	var all paths
	byPattern := map[string]*place{}
	for _, rt := range routes {
		at := byPattern[rt.path]
		if at == nil {
			at = &place{pattern: rt.path, segments: strings.Split(rt.path, "/"), routes: map[string]*route{}}
			byPattern[rt.path] = at
			all = append(all, at)
		}
		at.routes[rt.method] = rt
	}
	return all
}

// find gives the place of an escaped path and the values of its names, decoded
// segment by segment: an encoded slash is part of an id.
func (p paths) find(escaped string) (*place, map[string]string) {
	segments := strings.Split(escaped, "/")
	for _, at := range p {
		if values, ok := at.match(segments); ok {
			return at, values
		}
	}
	return nil, nil
}

func (at *place) match(segments []string) (map[string]string, bool) {
	if len(segments) != len(at.segments) {
		return nil, false
	}
	values := map[string]string{}
	for i, wanted := range at.segments {
		name, isName := strings.CutPrefix(wanted, "{")
		if !isName {
			if segments[i] != wanted {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(segments[i])
		if err != nil || value == "" {
			return nil, false
		}
		values[strings.TrimSuffix(name, "}")] = value
	}
	return values, true
}
