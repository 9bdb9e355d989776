package main

import (
	"io"
	"slices"
	"strings"
)

// idsIn reads the ids of --ids, one a line, and gives each once.
func idsIn(file string, in io.Reader) ([]string, error) {
	text, err := readFile(file, in)
	if err != nil {
		return nil, usagef("--ids: %w", err)
	}
	var ids []string
	for line := range strings.Lines(string(text)) {
		if id := strings.TrimSpace(line); id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, usagef("--ids %s: expected ids, one a line, and there are none", file)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
