package impart

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rolesApart is set to run the stories on gateways and logic nodes of their own instead of whole servers.
var rolesApart = os.Getenv("IMPART_SHAPE") == "roles"

// apart reports whether a server is to be a gateway and a logic node: where it has a database, and is not told otherwise.
func (cfg *Config) apart() bool {
	store := cfg.storeAddress()
	return rolesApart && len(cfg.Args) == 0 && (strings.HasPrefix(store, "postgres") || strings.HasPrefix(store, "mysql"))
}

// setting is the last value of a variable in the settings, "" for none.
func (cfg *Config) setting(name string) string {
	value := ""
	for _, pair := range cfg.Env {
		if v, found := strings.CutPrefix(pair, name+"="); found {
			value = v
		}
	}
	return value
}

func (cfg *Config) storeAddress() string {
	if store := cfg.setting("IM_STORE"); store != "" {
		return store
	}
	return cfg.Store
}

// launchApart starts a logic node, unless there are some, and a gateway. To a test the two are one server: they are
// killed, stopped and restarted together.
func launchApart(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	if len(cfg.Logic) == 0 {
		node, err := launchLogic(cfg)
		if err != nil {
			return nil, err
		}
		s.under, s.cfg.Logic = node, []*Server{node}
	}
	s.cfg.Args = []string{"gateway"}
	if err := s.start("127.0.0.1:0"); err != nil {
		if s.under != nil {
			s.under.Kill()
		}
		return nil, err
	}
	return s, nil
}

// launchLogic starts a logic node with the settings of a server.
func launchLogic(cfg Config) (*Server, error) {
	cfg.Args, cfg.MaxFiles = []string{"logic"}, 0
	cfg.Dir = filepath.Join(cfg.Dir, "logic")
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	node := &Server{cfg: cfg}
	return node, node.start("127.0.0.1:0")
}

// apartEnv is what a role needs beyond the settings of a server.
func (cfg *Config) apartEnv() []string {
	switch {
	case slices.Equal(cfg.Args, []string{"logic"}):
		return []string{"IM_LOGIC_LISTEN=" + cmp.Or(cfg.hop, "127.0.0.1:0")}
	case len(cfg.Logic) == 0:
		return nil
	}
	var nodes []string
	for _, n := range cfg.Logic {
		nodes = append(nodes, n.Hop())
	}
	env := []string{"IM_STORE=", "IM_LOGIC=" + strings.Join(nodes, ",")}
	if cfg.setting("IM_LISTEN_STORE") == "" && cfg.setting("IM_REDIS") == "" {
		env = append(env, "IM_LISTEN_STORE="+cfg.storeAddress())
	}
	return env
}

// Hop is where a logic node serves gateways.
func (s *Server) Hop() string { s.mu.Lock(); defer s.mu.Unlock(); return s.cfg.hop }

// Processes are what the server consists of: itself, and where the roles are apart its logic nodes.
func (s *Server) Processes() []*Server { return append([]*Server{s}, s.cfg.Logic...) }
