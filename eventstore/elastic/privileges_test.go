package elastic

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"testing"
)

// TestDocumentedPrivileges compares the required privileges with those in docs/permissions.md.
func TestDocumentedPrivileges(t *testing.T) {
	page, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no role")
	}
	var documented struct {
		Cluster []string `json:"cluster"`
		Indices []grant  `json:"indices"`
	}
	if err := json.Unmarshal(block[1], &documented); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Config{URLs: []string{"http://localhost:9200"}})
	if err != nil {
		t.Fatal(err)
	}
	asked := s.requiredPrivileges()
	if want := (privileges{documented.Cluster, documented.Indices}); !reflect.DeepEqual(asked, want) {
		t.Errorf("asks for %+v, and the page has %+v", asked, want)
	}
}
