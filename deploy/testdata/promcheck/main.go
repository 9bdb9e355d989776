// Promcheck checks rules of Prometheus and a dashboard of Grafana against metrics that a
// server exports: with the parsers and the engine of Prometheus. It is a module of its own,
// since Prometheus requires many others.
//
//	promcheck -rules rules.yml -tests rules.test.yml -dashboard dashboard.json -known name,name < metrics
//
// It prints each problem on a line, and exits with 1 if there are any.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

func main() {
	rules := flag.String("rules", "", "file with rules")
	tests := flag.String("tests", "", "file with tests of the rules")
	dashboard := flag.String("dashboard", "", "file with a dashboard")
	known := flag.String("known", "", "names of metrics that the server exports at other times")
	flag.Parse()
	problems, err := check(*rules, *dashboard, strings.Split(*known, ","), os.Stdin)
	failed, testErr := testRules(*tests)
	problems = append(problems, failed...)
	if err := errors.Join(err, testErr); err != nil {
		problems = append(problems, err.Error())
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// query is an expression and its place.
type query struct {
	place, text string
	isPanel     bool // it has to return something
}

func check(rules, dashboard string, known []string, metrics io.Reader) (problems []string, err error) {
	queries, err := ruleQueries(rules)
	if err != nil {
		return nil, err
	}
	panels, err := panelQueries(dashboard)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "promcheck")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	data, err := load(folder, metrics)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	for _, q := range slices.Concat(queries, panels) {
		for _, problem := range data.problems(q, known) {
			problems = append(problems, q.place+": "+problem+": "+q.text)
		}
	}
	if len(queries) < 5 || len(panels) < 5 {
		problems = append(problems, fmt.Sprintf("found only %d rules and %d queries of the dashboard", len(queries), len(panels)))
	}
	return problems, nil
}

func ruleQueries(file string) ([]query, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	groups, mistakes := rulefmt.Parse(text, false)
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	var list []query
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
				return nil, fmt.Errorf("rule %s has no summary or no severity", rule.Alert)
			}
			list = append(list, query{"rule " + rule.Alert, rule.Expr, false})
		}
	}
	return list, nil
}

// panelQueries returns the queries of a dashboard, with values for the variables of Grafana.
func panelQueries(file string) ([]query, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	type panel struct {
		Title   string
		Panels  []json.RawMessage
		Targets []struct{ Expr string }
	}
	var d struct {
		Panels     []panel
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	var list []query
	for _, v := range d.Templating.List {
		if values := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Definition); values != nil {
			list = append(list, query{"variable " + v.Name, fmt.Sprintf("count by (%s) (%s{%[1]s!=''})", values[2], values[1]), true})
		} else if v.Type == "query" {
			return nil, fmt.Errorf("variable %s: %s is not understood", v.Name, v.Definition)
		}
	}
	for _, p := range d.Panels {
		if len(p.Panels) > 0 {
			return nil, fmt.Errorf("panel %s has panels, which are not checked", p.Title)
		}
		for _, target := range p.Targets {
			list = append(list, query{"panel " + p.Title, fill(target.Expr), true})
		}
	}
	return list, nil
}

func fill(expr string) string {
	expr = strings.NewReplacer("$__rate_interval", "1m", "$__range", "5m", "$__interval", "1m").Replace(expr)
	return regexp.MustCompile(`\$\{?\w+\}?`).ReplaceAllString(expr, ".*")
}

// series are the samples of a server for some minutes.
type series struct {
	*tsdb.DB
	engine *promql.Engine
	end    time.Time
	names  map[string]bool
}

const (
	span = 10 * time.Minute
	step = 15 * time.Second
)

// load stores the metrics as if they were scraped again and again.
func load(folder string, metrics io.Reader) (*series, error) {
	text, err := io.ReadAll(metrics)
	if err != nil {
		return nil, err
	}
	db, err := tsdb.Open(filepath.Join(folder, "data"), nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, err
	}
	s := &series{
		DB: db, end: time.Now().Truncate(time.Second), names: map[string]bool{},
		engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true}),
	}
	appender := db.Appender(context.Background())
	p := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for {
		kind, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if kind != textparse.EntrySeries {
			continue
		}
		var of labels.Labels
		p.Labels(&of)
		_, _, value := p.Series()
		s.names[of.Get(labels.MetricName)] = true
		scraped := labels.NewBuilder(of).Set("job", "watership").Set("instance", "watership:8181").Labels()
		for at := s.end.Add(-span); !at.After(s.end); at = at.Add(step) {
			if _, err := appender.Append(0, scraped, at.UnixMilli(), value); err != nil {
				return nil, err
			}
		}
	}
	return s, appender.Commit()
}

// problems returns what is wrong with a query. One about metrics that the server exports has
// a result.
func (s *series) problems(q query, known []string) []string {
	parsed, err := parser.ParseExpr(q.text)
	if err != nil {
		return []string{err.Error()}
	}
	var problems []string
	isExported := true
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, is := node.(*parser.VectorSelector); is {
			name := selector.Name
			if !s.names[name] {
				isExported = false
				if !slices.Contains(known, regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")) && !slices.Contains(known, name) {
					problems = append(problems, "no server exports "+name)
				}
			}
		}
		return nil
	})
	run, err := s.engine.NewInstantQuery(context.Background(), s.DB, nil, q.text, s.end)
	if err != nil {
		return append(problems, err.Error())
	}
	defer run.Close()
	result := run.Exec(context.Background())
	if result.Err != nil {
		return append(problems, result.Err.Error())
	}
	vector, _ := result.Vector()
	if q.isPanel && isExported && len(vector) == 0 {
		problems = append(problems, "it returns nothing")
	}
	return problems
}
