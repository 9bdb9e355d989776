package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	variablePrefix = "WATERSHIP_"
	testPrefix     = "WATERSHIP_TEST_" // of the servers of tests

	// completionVariable is set by the completion scripts for fish and PowerShell.
	completionVariable = "WATERSHIP_ACTIVE_HELP"

	// FileVariable names the configuration file if no flag does.
	FileVariable = "WATERSHIP_CONFIG"
)

// defaults returns the lowest layer.
func (l *loader) defaults(overrides map[string]string) values {
	settings := values{}
	for _, key := range l.keys {
		if value := cmp.Or(overrides[key.Name], key.Default); value != "" {
			l.fromText(key, value, Origin{Place: Default}, settings)
		}
	}
	return settings
}

// file reads a YAML file, without some of its keys. Without a name, it returns no values.
func (l *loader) file(name string, omit []string) values {
	settings := values{}
	if name == "" {
		return settings
	}
	origin := Origin{Place: File, Name: name}
	content, err := os.ReadFile(name)
	if err != nil {
		l.fail("", node{Origin: origin}, "expected a configuration file: "+readError(err))
		return settings
	}
	root, err := parseYAML(content, origin)
	if err != nil {
		l.failYAML("", origin, err)
		return settings
	}
	l.flatten("", root, settings)
	maps.DeleteFunc(settings, func(key string, _ any) bool { return slices.Contains(omit, key) })
	return settings
}

func readError(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// flatten stores the values of a tree by their keys.
func (l *loader) flatten(path string, n node, into values) {
	if n.Kind != mapping && n.Kind != absent {
		l.fail(path, n, "expected keys such as "+l.childrenOf(path)[0])
		return
	}
	for _, f := range n.Fields {
		name := join(path, f.Name)
		isKey := slices.Contains(l.names(), name)
		switch {
		case isKey && into[name] != nil: // amqp.url, and url under amqp
			l.fail(name, f.Value, "expected each key once")
		case isKey && f.Value.Kind != absent:
			into[name] = f.Value
		case isKey: // null counts as not set
		case len(l.childrenOf(name)) > 0:
			l.flatten(name, f.Value, into)
		default:
			l.unknown(name, f.Value.Origin, l.namesAndGroups())
		}
	}
}

// environment reads the variables that begin with WATERSHIP_. An empty one counts as
// not set, since compose files pass variables on that way.
func (l *loader) environment(variables []string) values {
	settings := values{}
	byVariable := map[string]Key{}
	for _, key := range l.keys {
		byVariable[key.Variable()] = key
	}
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, variablePrefix) || strings.HasPrefix(name, testPrefix) || name == FileVariable || name == completionVariable {
			continue
		}
		origin := Origin{Place: Environment, Name: name}
		if key, known := byVariable[name]; !known {
			l.unknown(name, origin, Variables())
		} else if value != "" {
			l.fromText(key, value, origin, settings)
		}
	}
	return settings
}

// flags reads the values of flags, by key.
func (l *loader) flags(flags map[string]string) values {
	settings := values{}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		i := slices.IndexFunc(l.keys, func(k Key) bool { return k.Name == name })
		if i < 0 {
			l.unknown(name, Origin{Place: Flag, Name: name}, l.names())
			continue
		}
		l.fromText(l.keys[i], flags[name], Origin{Place: Flag, Name: "--" + l.keys[i].Flag()}, settings)
	}
	return settings
}

// fromText parses the text of a variable or a flag.
func (l *loader) fromText(key Key, value string, origin Origin, into values) {
	n := textNode(value, origin)
	switch key.Form {
	case List:
		n = node{Kind: sequence, Origin: origin}
		for item := range strings.SplitSeq(value, ",") {
			n.Items = append(n.Items, textNode(strings.TrimSpace(item), origin))
		}
	case URLs:
		if urls := splitURLs(value); len(urls) > 1 {
			n = node{Kind: sequence, Origin: origin}
			for _, each := range urls {
				n.Items = append(n.Items, textNode(each, origin))
			}
		}
	case Structure:
		var err error
		if n, err = parseYAML([]byte(value), origin); err != nil {
			l.failYAML(key.Name, origin, err)
			return
		}
	}
	into[key.Name] = n
}

// failYAML reports a text that is not YAML, with its line if that is known.
func (l *loader) failYAML(key string, origin Origin, err error) {
	messages := []string{err.Error()}
	var several *yaml.TypeError
	if errors.As(err, &several) {
		messages = several.Errors
	}
	for _, message := range messages {
		message = strings.TrimPrefix(message, "yaml: ")
		if strings.Contains(message, "found character that cannot start any token") {
			message += " (a tab? YAML indents with spaces)"
		}
		place := origin
		if _, err := fmt.Sscanf(message, "line %d:", &place.Line); err == nil && place.Place == File {
			_, message, _ = strings.Cut(message, ": ")
		} else {
			place.Line = 0
		}
		l.fail(key, node{Origin: place}, "expected YAML: "+redact(message))
	}
}
