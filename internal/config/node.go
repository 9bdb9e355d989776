package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// nodeKind is the kind of a YAML node.
type nodeKind int

const (
	absent nodeKind = iota // null, or nothing
	text
	sequence
	mapping
)

// node is a value as written in its source, before the parser of its key has read
// it. Its fields are exported, since koanf copies values by reflection.
type node struct {
	Kind   nodeKind
	Text   string
	Items  []node
	Fields []field
	Origin Origin
}

// field is one entry of a mapping.
type field struct {
	Name  string
	Value node
}

func textNode(s string, origin Origin) node {
	return node{Kind: text, Text: s, Origin: origin}
}

func (n node) field(name string) (node, bool) {
	for _, f := range n.Fields {
		if f.Name == name {
			return f.Value, true
		}
	}
	return node{}, false
}

// format formats the node for a message or a listing, on one line and without
// passwords.
func (n node) format() string {
	switch n.Kind {
	case text:
		return redact(n.Text)
	case sequence:
		shown := make([]string, len(n.Items))
		for i, item := range n.Items {
			shown[i] = item.format()
		}
		return strings.Join(shown, ", ")
	default:
		return ""
	}
}

// parseYAML reads one document. Empty content gives an absent node.
func parseYAML(content []byte, origin Origin) (node, error) {
	var checked any
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	// Decoding into a value finds mistakes that decoding into yaml.Node does not:
	// duplicate keys, an anchor that contains itself, aliases that multiply without end.
	err := decoder.Decode(&checked)
	if errors.Is(err, io.EOF) {
		return node{Origin: origin}, nil
	}
	if err != nil {
		return node{}, err
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return node{}, errors.New("yaml: expected one document")
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return node{}, err
	}
	return fromYAML(document.Content[0], origin)
}

func fromYAML(y *yaml.Node, origin Origin) (node, error) {
	n := node{Origin: origin}
	switch {
	case y.Kind == yaml.AliasNode:
		return fromYAML(y.Alias, origin)
	case y.Kind == yaml.MappingNode:
		n.Kind = mapping
		return n, n.addFields(y)
	case y.Kind == yaml.SequenceNode:
		n.Kind = sequence
		return n, n.addItems(y)
	case y.ShortTag() != "!!null":
		n.Kind, n.Text = text, y.Value
	}
	return n, nil
}

func (n *node) addItems(y *yaml.Node) error {
	for _, child := range y.Content {
		item, err := fromYAML(child, n.Origin.at(child.Line))
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	return nil
}

func (n *node) addFields(y *yaml.Node) error {
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		switch {
		case key.Kind == yaml.AliasNode:
			key = key.Alias
		case key.ShortTag() == "!!merge":
			return fmt.Errorf("yaml: line %d: expected no merge key; write the fields out", key.Line)
		}
		value, err := fromYAML(y.Content[i+1], n.Origin.at(key.Line))
		if err != nil {
			return err
		}
		n.Fields = append(n.Fields, field{key.Value, value})
	}
	return nil
}

// at returns the origin with a line, if it is a file.
func (o Origin) at(line int) Origin {
	if o.Place == File {
		o.Line = line
	}
	return o
}
