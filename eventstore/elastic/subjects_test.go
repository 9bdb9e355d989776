package elastic

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// Deleted keys are in no file after the merge: deletions are written before it, and the files that it has replaced are
// removed after it, also when a former attempt has deleted the keys.
func TestKeysAreExpunged(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	s := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != "/_mget" {
			paths = append(paths, r.URL.Path)
		}
		fmt.Fprint(w, `{"docs":[{"_id":"subject_a","found":false}]}`)
	})
	if _, err := s.DestroySubjectKeys(t.Context(), []string{"subject_a"}); err != nil {
		t.Fatal(err)
	}
	index := "/scripted.subjects"
	if want := []string{index + "/_refresh", index + "/_flush", index + "/_forcemerge", index + "/_flush"}; !slices.Equal(paths, want) {
		t.Errorf("%q, want %q", paths, want)
	}
}
