package helm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/watershipmq/watership/internal/config"
)

// A given is a release of the chart with values in YAML.
type given struct {
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	Values    string `json:"values"`
}

type rendering struct {
	Error     string
	Manifests map[string]string // by the name of the template
}

// all returns the manifests that kubectl can apply, in the order of their templates.
func (r rendering) all() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Manifests)) {
		if manifest := strings.Trim(r.Manifests[name], "-\n"); strings.HasSuffix(name, ".yaml") && manifest != "" {
			fmt.Fprintf(&text, "---\n%s\n", manifest)
		}
	}
	return text.String()
}

// render renders a chart with the engine of Helm. Manifests that the types of Kubernetes' API do not have, or that
// the level restricted of its Pod Security Standards refuses, are errors.
func render(t *testing.T, chart string, releases ...given) []rendering {
	t.Helper()
	checker := os.Getenv("WATERSHIP_TEST_HELMCHECK")
	if checker == "" {
		t.Skip(`WATERSHIP_TEST_HELMCHECK is not the path of "scripts/fixtures helmcheck", which takes minutes: make packages sets it`)
	}
	for i := range releases {
		releases[i].Release = "shop"
	}
	in, err := json.Marshal(releases)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), checker, chart)
	command.Stdin, command.Stderr = bytes.NewReader(in), os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var renderings []rendering
	if err := json.Unmarshal(out, &renderings); err != nil {
		t.Fatal(err)
	}
	return renderings
}

// cases has for each value of the chart what it adds to the manifests, or with a minus what it takes away.
func cases() map[string]struct{ values, want string } {
	return map[string]struct{ values, want string }{
		"nameOverride":                       {`nameOverride: records`, "name: shop-records\n"},
		"fullnameOverride":                   {`fullnameOverride: records`, "name: records\n"},
		"image.repository":                   {`image: {repository: registry.example/watership}`, "image: registry.example/watership:"},
		"image.tag":                          {`image: {tag: "1.2"}`, "image: watership:1.2\n"},
		"image.digest":                       {`image: {tag: "1.2", digest: "sha256:` + strings.Repeat("a", 64) + `"}`, "image: watership@sha256:aaa"},
		"image.pullPolicy":                   {`image: {pullPolicy: Always}`, "imagePullPolicy: Always\n"},
		"imagePullSecrets":                   {`imagePullSecrets: [{name: registry}]`, "imagePullSecrets:\n        - name: registry\n"},
		"config":                             {`config: {http: {tls: {cert: /c, key: /k}}}`, "scheme: HTTPS}"},
		"existingSecrets":                    {`existingSecrets: [{name: login, items: [{key: password, path: rabbitmq}]}]`, "mountPath: /run/secrets/watership\n"},
		"replicas":                           {`replicas: 5`, "replicas: 5\n"},
		"deployments":                        {`deployments: [{name: record, roles: [index, alerts], replicas: 0, resources: {limits: {memory: 9Gi}}}, {name: handle, roles: [routes]}]`, "value: index,alerts\n          resources:\n            limits:\n              memory: 9Gi\n            requests:\n              cpu: 100m\n              memory: 256Mi\n"},
		"setup.enabled":                      {`setup: {enabled: false}`, "-initContainers:"},
		"setup.args":                         {`setup: {args: [--kibana=http://kibana:5601]}`, `args: ["setup","--kibana=http://kibana:5601"]`},
		"resources.requests.cpu":             {`resources: {requests: {cpu: 300m}}`, "cpu: 300m\n"},
		"resources.requests.memory":          {`resources: {requests: {memory: 300Mi}}`, "memory: 300Mi\n"},
		"resources.limits.memory":            {`resources: {limits: {memory: 2Gi}}`, "memory: 2Gi\n"},
		"terminationGracePeriodSeconds":      {`terminationGracePeriodSeconds: 90`, "terminationGracePeriodSeconds: 90\n"},
		"strategy.type":                      {`strategy: {type: Recreate}`, "type: Recreate\n"},
		"podDisruptionBudget.enabled":        {`podDisruptionBudget: {enabled: false}`, "-kind: PodDisruptionBudget"},
		"podDisruptionBudget.maxUnavailable": {`podDisruptionBudget: {maxUnavailable: 50%}`, "maxUnavailable: 50%\n"},
		"networkPolicy.enabled":              {`networkPolicy: {enabled: false}`, "-kind: NetworkPolicy"},
		"networkPolicy.from":                 {`networkPolicy: {from: []}`, "[] # nobody"},
		"networkPolicy.egress":               {`networkPolicy: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}`, "Egress\n"},
		"service.type":                       {`service: {type: LoadBalancer}`, "type: LoadBalancer\n"},
		"service.port":                       {`service: {port: 80}`, "port: 80\n"},
		"service.annotations":                {`service: {annotations: {a.example/b: c}}`, "annotations:\n    a.example/b: c\n"},
		"serviceMonitor.enabled":             {`serviceMonitor: {enabled: true}`, "kind: ServiceMonitor\n"},
		"serviceMonitor.interval":            {`serviceMonitor: {enabled: true, interval: 15s}`, "interval: 15s\n"},
		"serviceMonitor.labels":              {`serviceMonitor: {enabled: true, labels: {release: prometheus}}`, "release: prometheus\n"},
		"serviceAccount.create":              {`serviceAccount: {create: false}`, "-kind: ServiceAccount"},
		"serviceAccount.name":                {`serviceAccount: {name: robot}`, "serviceAccountName: robot\n"},
		"serviceAccount.annotations":         {`serviceAccount: {annotations: {a.example/b: c}}`, "annotations:\n    a.example/b: c\n"},
		"env":                                {`env: [{name: WATERSHIP_LOG_FORMAT, value: json}]`, "name: WATERSHIP_LOG_FORMAT\n"},
		"volumes":                            {`volumes: [{name: ca, configMap: {name: ca}}]`, "configMap:\n            name: ca\n"},
		"volumeMounts":                       {`volumeMounts: [{name: config, mountPath: /copy}]`, "mountPath: /copy\n"},
		"podAnnotations":                     {`podAnnotations: {a.example/b: c}`, "        a.example/b: c\n"},
		"podLabels":                          {`podLabels: {team: shop}`, "        team: shop\n"},
		"priorityClassName":                  {`priorityClassName: high`, "priorityClassName: high\n"},
		"nodeSelector":                       {`nodeSelector: {disk: ssd}`, "disk: ssd\n"},
		"tolerations":                        {`tolerations: [{key: spot, operator: Exists}]`, "key: spot\n"},
		"affinity":                           {`affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}`, "podAffinity:"},
		"topologySpreadConstraints":          {`topologySpreadConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`, "topologyKey: zone\n"},
	}
}

// Each value of the chart has a case that changes the manifests, and the API's types have all that it renders.
func TestValues(t *testing.T) {
	paths := slices.Sorted(maps.Keys(cases()))
	if diff := cmp.Diff(slices.Sorted(slices.Values(leaves("", defaults(t)))), paths); diff != "" {
		t.Errorf("values without a case (-), and cases without a value (+):\n%s", diff)
	}
	releases := []given{{}}
	for _, path := range paths {
		releases = append(releases, given{Values: cases()[path].values})
	}
	renderings := render(t, "watership", releases...)
	for i, path := range paths {
		want, gone := strings.CutPrefix(cases()[path].want, "-")
		usual, changed := renderings[0], renderings[i+1]
		switch {
		case usual.Error != "" || changed.Error != "":
			t.Errorf("%s: %s%s", path, usual.Error, changed.Error)
		case strings.Contains(usual.all(), want) != gone || strings.Contains(changed.all(), want) == gone:
			t.Errorf("%s: %q is in the manifests of the default, or is not in these (-: the other way round):\n%s", path, cases()[path].want, changed.all())
		}
	}
}

func defaults(t *testing.T) (values map[string]any) {
	t.Helper()
	text, err := os.ReadFile("watership/values.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &values)
	}
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// leaves lists the paths of values. What a value of the chart may hold has no paths.
func leaves(prefix string, values map[string]any) (paths []string) {
	for name, value := range values {
		if inner, is := value.(map[string]any); is && len(inner) > 0 && name != "config" {
			paths = append(paths, leaves(prefix+name+".", inner)...)
		} else {
			paths = append(paths, prefix+name)
		}
	}
	return paths
}

// Values that the chart does not have, that have another type, or that Kubernetes refuses are errors.
func TestWrongValues(t *testing.T) {
	wrong := map[string]string{
		`replica: 3`:           "additional properties 'replica' not allowed",
		`replicas: three`:      "got string, want integer",
		`image: {digest: abc}`: "does not match pattern",
		`deployments: [{name: x, roles: [indx]}]`:   "value must be one of",
		`deployments: [{roles: [index]}]`:           "missing property 'name'",
		`terminationGracePeriodSeconds: 10`:         "minimum",
		`service: {annotations: {a: 1}}`:            "got number, want string",
		`strategy: {type: Recreate, typo: 1}`:       `unknown field "typo"`,
		`resources: {limits: {memory: much}}`:       "quantities must match",
		`volumes: [{name: x, hostPath: {path: /}}]`: "hostPath",
	}
	texts := slices.Sorted(maps.Keys(wrong))
	var releases []given
	for _, text := range texts {
		releases = append(releases, given{Values: text})
	}
	for i, got := range render(t, "watership", releases...) {
		if !strings.Contains(got.Error, wrong[texts[i]]) {
			t.Errorf("%s: %q has no %q", texts[i], got.Error, wrong[texts[i]])
		}
	}
}

// The configuration arrives as it was written: with every key and number of the example.
func TestConfiguration(t *testing.T) {
	servers := []string{"WATERSHIP_AMQP_URL=amqp://guest:guest@rabbitmq:5672/", "WATERSHIP_STORE_URL=http://elasticsearch:9200"} // of the chart
	text, err := os.ReadFile("../../docs/watership.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := "config:\n  " + strings.ReplaceAll(string(text), "\n", "\n  ")
	renderings := render(t, "watership", given{}, given{Values: values})
	var settings []config.Config // of which the first is the chart's
	for _, r := range renderings {
		if r.Error != "" {
			t.Fatal(r.Error)
		}
		var manifest struct{ Data map[string]string }
		if err := yaml.Unmarshal([]byte(r.Manifests["watership/templates/configmap.yaml"]), &manifest); err != nil {
			t.Fatal(err)
		}
		settings = append(settings, load(t, manifest.Data["watership.yaml"]))
	}
	if got := settings[0].AMQP.URL.Reveal(); got != "amqp://guest:guest@rabbitmq:5672/" {
		t.Errorf("by default the broker is at %s", got)
	}
	want, got := reflect.ValueOf(load(t, string(text), servers...)), reflect.ValueOf(settings[1])
	for _, field := range reflect.VisibleFields(want.Type()) {
		if field.IsExported() && !reflect.DeepEqual(want.FieldByIndex(field.Index).Interface(), got.FieldByIndex(field.Index).Interface()) {
			t.Errorf("%s is different", field.Name)
		}
	}
}

func load(t *testing.T, text string, environ ...string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "watership.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{File: file, Environ: environ, Serve: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// As a part of another chart it takes its values from those below its name, and the namespace of the release.
func TestSubchart(t *testing.T) {
	parent := t.TempDir()
	if err := os.CopyFS(filepath.Join(parent, "charts/watership"), os.DirFS("watership")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, "Chart.yaml"), []byte("{apiVersion: v2, name: parent, version: 1.0.0}"), 0o600); err != nil {
		t.Fatal(err)
	}
	part := render(t, parent, given{Namespace: "a", Values: `{global: {imageRegistry: x}, watership: {replicas: 7}}`})[0]
	alone := render(t, "watership", given{Namespace: "b", Values: `replicas: 7`})[0]
	if part.Error != "" {
		t.Fatal(part.Error)
	}
	if diff := cmp.Diff(alone.all(), part.all()); diff != "" {
		t.Error(diff)
	}
	if found := regexp.MustCompile(`(?m)^\s*namespace:.*`).FindString(part.all()); found != "" {
		t.Errorf("a manifest has the %s", found)
	}
}

// The processors are those of the first row of docs/sizing.md.
func TestResources(t *testing.T) {
	text, err := os.ReadFile("../../docs/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| 100 \| 0\.(\d) \|`).FindSubmatch(text)
	resources := defaults(t)["resources"].(map[string]any)
	if cpu := resources["requests"].(map[string]any)["cpu"]; cpu != string(row[1])+"00m" {
		t.Errorf("the chart requests %s, and 100 messages a second need 0.%s cores", cpu, row[1])
	}
}

// deploy/kubernetes has what the chart renders by default, with WATERSHIP_TEST_UPDATE=1 made anew.
func TestPlainManifests(t *testing.T) {
	const name = "../kubernetes/watership.yaml"
	made := "# Watership for kubectl apply, without Helm: the chart beside it with its defaults, by its test.\n" +
		strings.ReplaceAll(render(t, "watership", given{Values: "fullnameOverride: watership"})[0].all(), "instance: shop", "instance: watership")
	if os.Getenv("WATERSHIP_TEST_UPDATE") != "" {
		if err := os.WriteFile(name, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made, string(kept)); diff != "" {
		t.Errorf("with WATERSHIP_TEST_UPDATE=1 the test writes %s anew (-chart +file):\n%s", name, diff)
	}
}
