package config

import (
	"fmt"
	"slices"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// values are the settings of one source, each a node, by key.
type values map[string]any

// layers hold a koanf instance for each source, the lowest precedence first. They
// stay apart, so that the origin of a value is the last layer that has its key.
type layers []*koanf.Koanf

// newLayers loads each source into its own instance.
func newLayers(sources ...values) (layers, error) {
	ls := make(layers, len(sources))
	for i, source := range sources {
		ls[i] = koanf.New(".")
		if err := ls[i].Load(confmap.Provider(source, "."), nil); err != nil {
			return nil, fmt.Errorf("loading settings: %w", err)
		}
	}
	return ls, nil
}

// merge returns the values in force, by key.
func (ls layers) merge() (*koanf.Koanf, error) {
	merged := koanf.New(".")
	for _, layer := range ls {
		if err := merged.Merge(layer); err != nil {
			return nil, fmt.Errorf("merging settings: %w", err)
		}
	}
	return merged, nil
}

// keysSet lists the keys that a layer above the defaults has, sorted.
func (ls layers) keysSet() []string {
	var keys []string
	for _, layer := range ls[1:] {
		keys = append(keys, layer.Keys()...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
