package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// row is a setting's row of the table in docs/operations.md, which a test of the
// server compares with the code.
var row = regexp.MustCompile("(?m)^\\| `(IM_[A-Z_]+)` \\|")

// readSettings are the names of all settings.
func readSettings(page string) ([]string, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, found := range row.FindAllSubmatch(text, -1) {
		names = append(names, string(found[1]))
	}
	if len(names) < 20 {
		return nil, fmt.Errorf("%s: its table of settings is not found", page)
	}
	return names, nil
}

// object is what a document of a rendered chart is, as far as any kind has it.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	text []byte
}

// kinds makes an object of each kind that the chart may have, into which it has to
// fit without a field left over. The two of the Prometheus operator have no types here.
var kinds = map[string]func() any{
	"Deployment":          func() any { return new(appsv1.Deployment) },
	"Service":             func() any { return new(corev1.Service) },
	"ConfigMap":           func() any { return new(corev1.ConfigMap) },
	"PodDisruptionBudget": func() any { return new(policyv1.PodDisruptionBudget) },
	"Ingress":             func() any { return new(networkingv1.Ingress) },
	"NetworkPolicy":       func() any { return new(networkingv1.NetworkPolicy) },
	"ServiceMonitor":      nil,
	"PrometheusRule":      nil,
}

// render fills the chart's templates in with values, as helm template does.
func render(folder string, values map[string]any) (map[string]string, error) {
	chart, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	if err := chartutil.ValidateAgainstSchema(chart, merged(chart.Values, values)); err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "chat", Namespace: "messages", IsInstall: true}
	top, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, top)
}

// merged are the chart's values with others over them.
func merged(under, over map[string]any) map[string]any {
	all := maps.Clone(under)
	for name, value := range over {
		if inner, is := value.(map[string]any); is {
			if below, is := all[name].(map[string]any); is {
				value = merged(below, inner)
			}
		}
		all[name] = value
	}
	return all
}

func readValues(file string) (map[string]any, error) {
	return chartutil.ReadValuesFile(file)
}

func printChart(folder, file string) error {
	values, err := readValues(file)
	if err != nil {
		return err
	}
	files, err := render(folder, values)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Printf("---\n# %s\n%s\n", name, strings.TrimSpace(files[name]))
	}
	return nil
}

// checkChart lints the chart and renders it with each file of values in its ci folder.
func checkChart(folder, operations string) (string, error) {
	var faults all
	settings, err := readSettings(operations)
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(folder, "ci", "*-values.yaml"))
	if err != nil || len(files) < 2 {
		return "", fmt.Errorf("files of values: %v, %w", files, err)
	}
	count := 0
	for _, file := range files {
		about := filepath.Base(file)
		values, err := readValues(file)
		if err != nil {
			faults.add(about, err)
			continue
		}
		linter := lint.AllWithKubeVersion(folder, values, "messages", nil)
		for _, m := range linter.Messages {
			if m.Severity >= support.WarningSev {
				faults.add(about+", lint", m)
			}
		}
		objects, err := renderObjects(folder, values)
		faults.add(about, err)
		for _, o := range objects {
			faults.add(about+", "+o.Kind+" "+o.Metadata.Name, o.check(settings))
		}
		faults.add(about, together(objects))
		count += len(objects)
	}
	faults.add("what it refuses", refusals(folder))
	return fmt.Sprintf("%d files of values, %d objects", len(files), count), faults.err()
}

func renderObjects(folder string, values map[string]any) ([]object, error) {
	files, err := render(folder, values)
	if err != nil {
		return nil, err
	}
	var objects []object
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		for _, doc := range strings.Split("\n"+text, "\n---") {
			var o object
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, doc)
			}
			if o.Kind != "" {
				o.text = []byte(doc)
				objects = append(objects, o)
			}
		}
	}
	return objects, nil
}

// check wants an object to be one of Kubernetes, and a Deployment to be a careful one.
func (o object) check(settings []string) error {
	into, known := kinds[o.Kind]
	if !known {
		return fmt.Errorf("a kind that this check does not know")
	}
	if into == nil {
		return nil
	}
	typed := into()
	if err := strictly(o.text, typed); err != nil {
		return err
	}
	d, is := typed.(*appsv1.Deployment)
	if !is {
		return nil
	}
	var faults all
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation {
		faults.addf("it may do more than it needs")
	}
	leave := int64(0)
	if c.Lifecycle != nil {
		leave = c.Lifecycle.PreStop.Sleep.Seconds
	}
	const drain, spare = 10, 5
	if *pod.TerminationGracePeriodSeconds < leave+drain+spare {
		faults.addf("%d s are too few to leave (%d s) and to drain (10 s)", *pod.TerminationGracePeriodSeconds, leave)
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/livez" || len(pod.TopologySpreadConstraints) == 0 || len(c.Resources.Requests) == 0 {
		faults.addf("probes, spread or resources are missing")
	}
	seen := map[string]bool{}
	for _, v := range c.Env {
		if seen[v.Name] {
			faults.addf("%s is set twice", v.Name)
		}
		seen[v.Name] = true
		if strings.HasPrefix(v.Name, "IM_") && !slices.Contains(settings, v.Name) {
			faults.addf("%s is no setting", v.Name)
		}
	}
	for key, value := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[key] != value {
			faults.addf("its selector does not find its pods: %s", key)
		}
	}
	return faults.err()
}

// strictly reads a document as Kubernetes does: the case of a name counts, and what is
// left over is an error.
func strictly(text []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	left, err := json.UnmarshalStrict(asJSON, into)
	return errors.Join(append(left, err)...)
}

// together wants services, budgets and policies to select pods that are there, and
// gateways to look for logic nodes where their service is.
func together(objects []object) error {
	var faults all
	var pods []map[string]string
	var looksFor string
	services := map[string]bool{}
	selectors := map[string]map[string]string{}
	for _, o := range objects {
		about := o.Kind + " " + o.Metadata.Name
		switch o.Kind {
		case "Deployment":
			var d appsv1.Deployment
			faults.add(about, yaml.Unmarshal(o.text, &d))
			pods = append(pods, d.Spec.Template.Labels)
			for _, v := range d.Spec.Template.Spec.Containers[0].Env {
				if v.Name == "IM_LOGIC" {
					looksFor = v.Value
				}
			}
		case "Service":
			var s corev1.Service
			faults.add(about, yaml.Unmarshal(o.text, &s))
			services[s.Name] = true
			selectors[about] = s.Spec.Selector
		case "PodDisruptionBudget":
			var b policyv1.PodDisruptionBudget
			faults.add(about, yaml.Unmarshal(o.text, &b))
			selectors[about] = b.Spec.Selector.MatchLabels
		case "NetworkPolicy":
			var p networkingv1.NetworkPolicy
			faults.add(about, yaml.Unmarshal(o.text, &p))
			selectors[about] = p.Spec.PodSelector.MatchLabels
		}
	}
	for about, selector := range selectors {
		found := slices.ContainsFunc(pods, func(labels map[string]string) bool {
			for key, value := range selector {
				if labels[key] != value {
					return false
				}
			}
			return len(selector) > 0
		})
		if !found {
			faults.addf("%s selects no pods", about)
		}
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(looksFor, "dns:///"), ".")
	if !services[host] {
		faults.addf("gateways look for logic nodes at %q, which is no service", looksFor)
	}
	return faults.err()
}

// refusals are values that the chart must not take in silence.
func refusals(folder string) error {
	minimal, err := os.ReadFile(filepath.Join(folder, "ci", "minimal-values.yaml"))
	if err != nil {
		return err
	}
	var faults all
	for _, c := range []struct{ what, values, want string }{
		{"no secret for gateways", `gateway: {secretName: ""}`, "gateway.secretName should name"},
		{"no secret for logic nodes", `logic: {secretName: ""}`, "logic.secretName should name"},
		{"plain text between the roles without a word", `hop: {plaintext: false}`, "hop.tlsSecretName should name"},
		{"an ingress without a host", `ingress: {enabled: true}`, "ingress.host should be"},
		{"a misspelled value", `gateway: {replica: 3}`, "replica"},
		{"a bus that is none", `bus: pigeons`, "bus"},
		{"a variable that is no setting", `env: {PATH: /tmp}`, "PATH"},
	} {
		var base, over map[string]any
		faults.add(c.what, yaml.Unmarshal(minimal, &base))
		faults.add(c.what, yaml.Unmarshal([]byte(c.values), &over))
		_, err := render(folder, merged(base, over))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			faults.addf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	return faults.err()
}
