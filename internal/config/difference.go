package config

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
)

// Differences lists the keys whose values are written in another way in two loaded
// configurations, sorted. A secret that is part of a value counts, and its value stays hidden.
func (c Config) Differences(other Config) []string {
	different := map[string]bool{}
	for key, digest := range c.digests {
		different[key] = other.digests[key] != digest
	}
	for key, digest := range other.digests {
		different[key] = c.digests[key] != digest
	}
	maps.DeleteFunc(different, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(different))
}

// digest returns a digest of a value, without its origin.
func (n node) digest() (sum [sha256.Size]byte) {
	all := sha256.New()
	n.hash(all)
	all.Sum(sum[:0])
	return sum
}

func (n node) hash(to hash.Hash) {
	write := func(kind nodeKind, length int) {
		_, _ = to.Write(binary.BigEndian.AppendUint64([]byte{byte(kind)}, uint64(length))) // a Hash returns no error
	}
	switch n.Kind {
	case mapping:
		write(n.Kind, len(n.Fields))
		for _, f := range n.Fields {
			textNode(f.Name, Origin{}).hash(to)
			f.Value.hash(to)
		}
	case sequence:
		write(n.Kind, len(n.Items))
		for _, item := range n.Items {
			item.hash(to)
		}
	default:
		write(n.Kind, len(n.Text))
		_, _ = to.Write([]byte(n.Text))
	}
}
