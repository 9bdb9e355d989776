package config

import (
	"cmp"
	"slices"

	"github.com/watershipmq/watership/internal/render/typo"
)

// nearest returns the candidate with the shortest edit distance from word, in any case; "" of none.
func nearest(word string, candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	return slices.MinFunc(candidates, func(a, b string) int { return cmp.Compare(typo.Distance(word, a), typo.Distance(word, b)) })
}
