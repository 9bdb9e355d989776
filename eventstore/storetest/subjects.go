package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Subjects keeps the keys of subjects. See the methods of *elastic.Store.
type Subjects interface {
	SubjectKeys(ctx context.Context, subjects []string) (map[string][]byte, error)
	KeepSubjectKeys(ctx context.Context, keys map[string][]byte) (map[string][]byte, error)
	DestroySubjectKeys(ctx context.Context, subjects []string) (destroyed []string, err error)
}

// RunSubjects runs the suite of keys of subjects. open returns an empty store.
func RunSubjects(t *testing.T, open func(t *testing.T) Subjects) {
	s := open(t)
	wantKeys(t, s, []string{"subject_a", "subject_b"}, nil)
	if destroyed, err := s.DestroySubjectKeys(t.Context(), []string{"subject_a"}); err != nil || len(destroyed) > 0 {
		t.Errorf("without keys %q were destroyed, %v", destroyed, err)
	}
	keep(t, s, map[string][]byte{"subject_a": {1, 0xff}, "subject_b": {2}}, map[string][]byte{"subject_a": {1, 0xff}, "subject_b": {2}})
	keep(t, s, map[string][]byte{"subject_a": {3}, "subject_c": {4}}, map[string][]byte{"subject_a": {1, 0xff}, "subject_c": {4}})
	wantKeys(t, s, []string{"subject_a", "subject_b", "subject_c", "subject_d"}, map[string][]byte{"subject_a": {1, 0xff}, "subject_b": {2}, "subject_c": {4}})
	wantKeys(t, s, nil, nil)
	destroyed, err := s.DestroySubjectKeys(t.Context(), []string{"subject_a", "subject_d"})
	if err != nil || !slices.Equal(destroyed, []string{"subject_a"}) {
		t.Errorf("%q were destroyed, %v", destroyed, err)
	}
	wantKeys(t, s, []string{"subject_a", "subject_b"}, map[string][]byte{"subject_b": {2}})
	keep(t, s, map[string][]byte{"subject_a": {5}}, map[string][]byte{"subject_a": {5}})

	many := map[string][]byte{}
	for i := range 2500 {
		many[fmt.Sprintf("subject_%020x", i)] = []byte{byte(i)}
	}
	keep(t, s, many, many)
	testKeysContended(t, s)
}

// testKeysContended keeps another key for one subject in several goroutines.
func testKeysContended(t *testing.T, s Subjects) {
	kept := make([]byte, 8)
	var group sync.WaitGroup
	for i := range kept {
		group.Go(func() {
			keys, err := s.KeepSubjectKeys(t.Context(), map[string][]byte{"subject_e": {byte(i + 1)}})
			if err != nil || len(keys["subject_e"]) != 1 {
				t.Errorf("%v, %v", keys, err)
				return
			}
			kept[i] = keys["subject_e"][0]
		})
	}
	group.Wait()
	if slices.Sort(kept); kept[0] != kept[len(kept)-1] {
		t.Errorf("several keys were kept: %v", kept)
	}
}

func keep(t *testing.T, s Subjects, keys, want map[string][]byte) {
	t.Helper()
	kept, err := s.KeepSubjectKeys(t.Context(), keys)
	if diff := cmp.Diff(want, kept); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

func wantKeys(t *testing.T, s Subjects, of []string, want map[string][]byte) {
	t.Helper()
	keys, err := s.SubjectKeys(t.Context(), of)
	if err != nil || len(keys) != len(want) {
		t.Errorf("%v, %v, want %v", keys, err, want)
	}
	for subject, key := range want {
		if !slices.Equal(keys[subject], key) {
			t.Errorf("%s has %v, want %v", subject, keys[subject], key)
		}
	}
}
