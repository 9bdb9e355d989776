package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"gopkg.in/yaml.v2"
)

// testFile is a file of tests as promtool reads it
// (https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/).
type testFile struct {
	RuleFiles []string       `yaml:"rule_files"`
	Interval  model.Duration `yaml:"evaluation_interval"`
	Tests     []ruleTest
}

type ruleTest struct {
	Name        string
	Interval    model.Duration
	InputSeries []struct{ Series, Values string } `yaml:"input_series"`
	Checks      []alertCheck                      `yaml:"alert_rule_test"`
}

type alertCheck struct {
	At     model.Duration `yaml:"eval_time"`
	Name   string         `yaml:"alertname"`
	Alerts []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

// testRules runs the tests of a file, and finds rules that no test sees silent and firing.
func testRules(file string) (problems []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var tests testFile
	if err := yaml.UnmarshalStrict(text, &tests); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var untested []string
	for i, name := range tests.RuleFiles {
		tests.RuleFiles[i] = filepath.Join(filepath.Dir(file), name)
		list, err := ruleQueries(tests.RuleFiles[i])
		if err != nil {
			return nil, err
		}
		for _, q := range list {
			untested = append(untested, strings.TrimPrefix(q.place, "rule "))
		}
	}
	for _, test := range tests.Tests {
		found, err := test.run(tests)
		if err != nil {
			return nil, fmt.Errorf("test %s: %w", test.Name, err)
		}
		problems = append(problems, found...)
		untested = slices.DeleteFunc(untested, test.seesBoth)
	}
	for _, name := range untested {
		problems = append(problems, "rule "+name+": no test sees it both silent and firing")
	}
	return problems, nil
}

func (t ruleTest) seesBoth(rule string) bool {
	state := func(firing bool) bool {
		return slices.ContainsFunc(t.Checks, func(c alertCheck) bool { return c.Name == rule && len(c.Alerts) > 0 == firing })
	}
	return state(false) && state(true)
}

func (t ruleTest) run(in testFile) (problems []string, err error) {
	load := fmt.Sprintf("load %s\n", t.Interval)
	for _, s := range t.InputSeries {
		load += fmt.Sprintf("  %s %s\n", s.Series, s.Values)
	}
	suite, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		return nil, err
	}
	defer suite.Close()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), Appendable: suite.Storage(), Context: context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(),
	})
	groups, mistakes := manager.LoadGroups(time.Duration(in.Interval), labels.EmptyLabels(), "", nil, false, in.RuleFiles...)
	if len(mistakes) > 0 {
		return nil, mistakes[0]
	}
	last := slices.MaxFunc(t.Checks, func(a, b alertCheck) int { return int(a.At - b.At) })
	for at := time.Duration(0); at <= time.Duration(last.At); at += time.Duration(in.Interval) {
		now := time.Unix(0, 0).UTC().Add(at)
		suite.WithSamplesTill(now, func(failed error) {
			for _, group := range groups {
				group.Eval(suite.Context(), now)
			}
			err = failed
		})
		if err != nil {
			return nil, err
		}
		for _, check := range t.Checks {
			if time.Duration(check.At) == at {
				problems = append(problems, check.compare(groups)...)
			}
		}
	}
	return problems, nil
}

// compare compares the alerts of a rule that fire now with those of a check.
func (c alertCheck) compare(groups map[string]*rules.Group) (problems []string) {
	var got, want []string
	for _, group := range groups {
		for _, rule := range group.AlertingRules() {
			for _, alert := range rule.ActiveAlerts() {
				if rule.Name() == c.Name && alert.State == rules.StateFiring {
					of := alert.Labels.Map()
					delete(of, labels.AlertName)
					got = append(got, fmt.Sprint(of, " ", alert.Annotations.Map()))
				}
			}
		}
	}
	for _, alert := range c.Alerts {
		want = append(want, fmt.Sprint(alert.Labels, " ", alert.Annotations))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		problems = append(problems, fmt.Sprintf("rule %s at %s fires as\n\t%s\nwant\n\t%s", c.Name, c.At, strings.Join(got, "\n\t"), strings.Join(want, "\n\t")))
	}
	return problems
}
