package config

import (
	"crypto/sha256"
	"strings"
)

// Sources are the places from which settings are read. The zero value has only
// defaults.
type Sources struct {
	File    string            // a YAML file; empty: the one FileVariable names, if any
	Omit    []string          // keys of the file that count as not set
	Environ []string          // NAME=value, as of os.Environ; only WATERSHIP_* is read
	Default map[string]string // by key: instead of the usual defaults
	Flags   map[string]string // by key, as in a flag; an empty value counts

	// Serve refuses amqp.listen without amqp.url, which is enough for dev. Other commands
	// then use the embedded broker that runs on the data folder.
	Serve bool
}

// Load reads a configuration: flags before environment before file before
// defaults. Its error is of type Mistakes.
func Load(from Sources) (Config, error) {
	var c Config
	l := &loader{keys: keys(&c), seen: map[string]node{}, failed: map[string]bool{}, noStructure: map[string]bool{}}
	sources, err := newLayers(
		l.defaults(from.Default),
		l.file(fileName(from), from.Omit),
		l.environment(from.Environ),
		l.flags(from.Flags),
	)
	if err != nil {
		return Config{}, err
	}
	merged, err := sources.merge()
	if err != nil {
		return Config{}, err
	}
	c.digests = map[string][sha256.Size]byte{}
	for _, key := range l.keys {
		if n, found := merged.Get(key.Name).(node); found {
			key.read(l, key.Name, n)
			c.digests[key.Name] = n.digest()
		}
	}
	if !from.Serve {
		l.completeBroker(&c)
	}
	l.complete(&c)
	checker{l}.check(&c)
	if len(l.mistakes) > 0 {
		l.mistakes.sort()
		return Config{}, l.mistakes
	}
	c.settings, c.keysSet, c.file = l.describe(), sources.keysSet(), fileName(from)
	return c, nil
}

func fileName(from Sources) string {
	if from.File != "" {
		return from.File
	}
	name := ""
	for _, variable := range from.Environ {
		if value, found := strings.CutPrefix(variable, FileVariable+"="); found {
			name = value
		}
	}
	return name
}

// loader collects the values and the mistakes of all sources.
type loader struct {
	keys     []Key
	mistakes Mistakes
	seen     map[string]node // by full key: routes[0].queue
	order    []string        // of seen
	failed   map[string]bool

	noStructure map[string]bool // values where fields were expected, whose fields have no mistakes
}

// record stores a value for Describe and for mistakes that are found later.
func (l *loader) record(path string, n node) {
	if _, found := l.seen[path]; !found {
		l.order = append(l.order, path)
	}
	l.seen[path] = n
}

// fail reports a mistake, the first of each key.
func (l *loader) fail(path string, n node, expected string) {
	if path != "" && l.failed[path] {
		return
	}
	l.failed[path] = true
	l.mistakes = append(l.mistakes, Mistake{Key: path, Value: l.show(path, n), Origin: n.Origin, Expected: expected})
}

// failAt reports a mistake in a recorded value, or in the structure that lacks it.
func (l *loader) failAt(path, expected string) {
	for at := path; at != ""; at = at[:max(0, strings.LastIndexAny(at, ".["))] {
		if at != path && l.noStructure[at] {
			return
		}
		if n, found := l.seen[at]; found {
			if at != path {
				n = node{Origin: n.Origin}
			}
			l.fail(path, n, expected)
			return
		}
	}
	l.fail(path, node{}, expected)
}

func (l *loader) unknown(name string, origin Origin, known []string) {
	origin.Name = redact(origin.Name)
	l.fail(redact(name), node{Origin: origin}, "is not known; the nearest is "+nearest(name, known))
}

// isURL reports whether a key has a URL, or is a URL of such a key's list.
func isURL(path string) bool {
	if at := strings.LastIndex(path, "["); at > 0 && strings.HasSuffix(path, "]") {
		path = path[:at]
	}
	return strings.HasSuffix(path, "url")
}

// show formats a value without passwords.
func (l *loader) show(path string, n node) string {
	if isURL(path) && n.Kind == text {
		return redactURL(n.Text)
	}
	if isURL(path) && n.Kind == sequence {
		shown := make([]string, len(n.Items))
		for i, item := range n.Items {
			shown[i] = l.show(element(path, i), item)
		}
		return strings.Join(shown, ", ")
	}
	if strings.Contains(path, ".set_headers.") && n.Kind == text {
		return redactTemplate(n.Text)
	}
	return n.format()
}

func (l *loader) describe() []Setting {
	settings := make([]Setting, 0, len(l.order))
	for _, path := range l.order {
		n := l.seen[path]
		if value := l.show(path, n); value != "" {
			settings = append(settings, Setting{Key: path, Value: value, Origin: n.Origin})
		}
	}
	return settings
}

func (l *loader) names() []string {
	names := make([]string, len(l.keys))
	for i, key := range l.keys {
		names[i] = key.Name
	}
	return names
}

// namesAndGroups lists the names that a file may have: keys and their groups.
func (l *loader) namesAndGroups() []string {
	var names []string
	for _, name := range l.names() {
		for at, char := range name {
			if char == '.' {
				names = append(names, name[:at])
			}
		}
		names = append(names, name)
	}
	return names
}

// childrenOf lists the keys under a group.
func (l *loader) childrenOf(group string) []string {
	if group == "" {
		return l.names()
	}
	var names []string
	for _, name := range l.names() {
		if strings.HasPrefix(name, group+".") {
			names = append(names, name)
		}
	}
	return names
}
