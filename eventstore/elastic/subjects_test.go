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

// A shard that did not merge may have the key in its files, so that the erasure is not done. What was deleted counts.
func TestKeysThatAreNotExpunged(t *testing.T) {
	for path, deleted := range map[string]int{"/_bulk": 1, "/scripted.subjects/_refresh": 2, "/scripted.subjects/_flush": 2, "/scripted.subjects/_forcemerge": 2} {
		s := scripted(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/_mget":
				fmt.Fprint(w, `{"docs":[{"_id":"subject_a","found":true,"_source":{"key":"AQ=="}},{"_id":"subject_b","found":true,"_source":{"key":"AQ=="}}]}`)
			case r.URL.Path == "/_bulk" && path == "/_bulk":
				fmt.Fprint(w, `{"items":[{"delete":{"_id":"subject_a","result":"deleted"}},{"delete":{"_id":"subject_b","error":{"type":"unavailable_shards_exception","reason":"no primary"}}}]}`)
			case r.URL.Path == "/_bulk":
				fmt.Fprint(w, `{"items":[{"delete":{"_id":"subject_a","result":"deleted"}},{"delete":{"_id":"subject_b","result":"deleted"}}]}`)
			case r.URL.Path == path:
				fmt.Fprint(w, `{"_shards":{"total":2,"successful":1,"failed":1}}`)
			default:
				fmt.Fprint(w, `{"_shards":{"total":2,"successful":1,"failed":0}}`)
			}
		})
		destroyed, err := s.DestroySubjectKeys(t.Context(), []string{"subject_a", "subject_b"})
		if err == nil || len(destroyed) != deleted {
			t.Errorf("%s fails: destroyed %q, %v", path, destroyed, err)
		}
	}
}
