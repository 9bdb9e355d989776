// Helmcheck renders a chart with Helm's engine, and decodes what it rendered strictly, by the types of
// Kubernetes' API. It is a module of its own, since Helm and Kubernetes require many others.
//
//	helmcheck CHART < cases
//
// The cases are a list in JSON, each with the name of a release, a namespace, and values in YAML. For each it
// prints an error, or the manifests by their templates.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path"
	"slices"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	disruption "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	admission "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

type renderCase struct {
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	Values    string `json:"values"`
}

type rendering struct {
	Error     string            `json:"error"`
	Manifests map[string]string `json:"manifests"` // by the name of the template
}

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(folder string, in io.Reader, out io.Writer) error {
	var cases []renderCase
	if err := json.NewDecoder(in).Decode(&cases); err != nil {
		return fmt.Errorf("reading the cases: %w", err)
	}
	renderings := make([]rendering, len(cases))
	for i, c := range cases {
		manifests, err := render(folder, c)
		renderings[i].Manifests = manifests
		if err != nil {
			renderings[i].Error = err.Error()
		}
	}
	return json.NewEncoder(out).Encode(renderings)
}

// render loads the chart for each case, because Helm merges values into those of the chart.
func render(folder string, c renderCase) (map[string]string, error) {
	loaded, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ReadValues([]byte(c.Values))
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(loaded, values); err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: c.Release, Namespace: c.Namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, values, options, nil)
	if err != nil {
		return nil, err
	}
	return checked(loaded, all)
}

func checked(loaded *chart.Chart, values chartutil.Values) (map[string]string, error) {
	rendered, err := engine.Engine{Strict: true}.Render(loaded, values)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		for _, manifest := range releaseutil.SplitManifests(rendered[name]) {
			if err := check([]byte(manifest)); err != nil {
				return rendered, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return rendered, nil
}

// check decodes a manifest, in which a field that its type lacks, or that is there twice, is an error.
func check(manifest []byte) error {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal(manifest, &kind); err != nil {
		return err
	}
	object := map[string]any{
		"v1 ConfigMap":                            new(core.ConfigMap),
		"v1 Service":                              new(core.Service),
		"v1 ServiceAccount":                       new(core.ServiceAccount),
		"apps/v1 Deployment":                      new(apps.Deployment),
		"networking.k8s.io/v1 NetworkPolicy":      new(networking.NetworkPolicy),
		"policy/v1 PodDisruptionBudget":           new(disruption.PodDisruptionBudget),
		"monitoring.coreos.com/v1 ServiceMonitor": new(monitoring.ServiceMonitor),
	}[kind.APIVersion+" "+kind.Kind]
	if object == nil {
		return fmt.Errorf("unexpected kind %s %s", kind.APIVersion, kind.Kind)
	}
	if err := yaml.UnmarshalStrict(manifest, object); err != nil {
		return err
	}
	if deployment, is := object.(*apps.Deployment); is {
		return restricted(deployment.Spec.Template)
	}
	return nil
}

// restricted compares a pod with the level restricted of the Pod Security Standards.
func restricted(pod core.PodTemplateSpec) error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	level := admission.LevelVersion{Level: admission.LevelRestricted, Version: admission.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			err = errors.Join(err, fmt.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail))
		}
	}
	return err
}
