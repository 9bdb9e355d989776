package server_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/kibana"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// fakeKibana imports as Kibana does: a form with a file of objects, one a line,
// from whoever says kbn-xsrf. It refuses references to what it has not.
type fakeKibana struct{ objects map[string]json.RawMessage }

func (k *fakeKibana) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, _, _ := r.BasicAuth()
	file, _, err := r.FormFile("file")
	switch {
	case user != "elastic":
		http.Error(w, `{"statusCode":401,"error":"Unauthorized"}`, http.StatusUnauthorized)
		return
	case r.Method != http.MethodPost || r.URL.Path != "/kibana/api/saved_objects/_import" || r.Header.Get("kbn-xsrf") == "" || err != nil:
		http.Error(w, "Bad Request", http.StatusBadRequest)
		return
	}
	text, _ := io.ReadAll(file)
	var failed []string
	count := 0
	for line := range bytes.Lines(text) {
		var object struct {
			Type, ID   string
			References []struct{ Type, ID string }
		}
		_ = json.Unmarshal(line, &object)
		if _, conflict := k.objects[object.Type+object.ID]; conflict && r.FormValue("overwrite") != "true" {
			failed = append(failed, "conflict")
			continue
		}
		for _, ref := range object.References {
			if k.objects[ref.Type+ref.ID] == nil {
				failed = append(failed, "missing_references")
			}
		}
		k.objects[object.Type+object.ID] = json.RawMessage(line)
		count++
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"success": len(failed) == 0, "successCount": count, "errors": failed})
}

// The password comes from a file, and the authority of Kibana's certificate is trusted.
func TestSetupLogsInToKibana(t *testing.T) {
	i := servertest.Around(t, rabbittest.Embedded(t)).Install(t, "http://127.0.0.1:1/")
	fake := &fakeKibana{map[string]json.RawMessage{}}
	server := httptest.NewTLSServer(fake)
	t.Cleanup(server.Close)
	password := servertest.WriteFile(t, "password", "secret\n")
	ca := servertest.WriteFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	address := server.URL + "/kibana/"
	out := i.Must(t, "setup", "--kibana", address, "--kibana-user", "elastic", "--kibana-password-file", password, "--kibana-ca", ca)
	if !strings.Contains(out, "14 saved objects imported at ") || strings.Contains(out, "secret") {
		t.Error(out)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--kibana", address, "--kibana-user", "elastic", "--kibana-password-file", password}, "certificate signed by unknown authority"},
		{[]string{"--kibana", address, "--kibana-user", "elastic"}, "expected both or neither"},
		{[]string{"--kibana", address, "--kibana-user", "elastic", "--kibana-password-file", "/nowhere"}, "--kibana-password-file: /nowhere: no such file"},
		{[]string{"--kibana", "http://elastic@localhost:1", "--kibana-user", "elastic", "--kibana-password-file", password}, "names a user too"},
		{[]string{"--kibana-user", "elastic", "--kibana-password-file", password}, "need --kibana"},
	} {
		if r := i.Run(t, append([]string{"setup"}, test.args...)...); r.Code == 0 || !strings.Contains(r.Err, test.want) || strings.Contains(r.Err, "secret\n") {
			t.Errorf("%v: exit code %d, %s", test.args, r.Code, r.Err)
		}
	}
}

func TestSetupImportsIntoKibana(t *testing.T) {
	i := servertest.Install(t, rabbittest.Newest(t), "http://127.0.0.1:1/")
	fake := &fakeKibana{map[string]json.RawMessage{}}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	url := strings.Replace(server.URL, "http://", "http://elastic:secret@", 1) + "/kibana/"
	objects, err := kibana.Objects(i.Stream, "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time as an update
		out := i.Must(t, "setup", "--kibana", url)
		if !strings.Contains(out, "kibana      14 saved objects imported at "+strings.Replace(server.URL, "http://", "http://elastic:xxxxx@", 1)) {
			t.Error(out)
		}
	}
	if n := bytes.Count(objects, []byte("\n")); len(fake.objects) != n || n != 14 {
		t.Errorf("Kibana has %d objects of %d", len(fake.objects), n)
	}
	for _, test := range []struct {
		url  string
		code int
		want string
	}{
		{server.URL + "/kibana", 1, "401 Unauthorized"},
		{strings.Replace(url, "/kibana/", "/elsewhere", 1), 1, "400 Bad Request"},
		{"http://elastic:secret@127.0.0.1:1", 1, "connection refused"},
		{"localhost:5601", 2, "expected a URL"},
	} {
		r := i.Run(t, "setup", "--kibana", test.url)
		if declared := strings.Contains(r.Out, "declared"); declared == (test.code == 2) {
			t.Errorf("%s: exit code %d after\n%s", test.url, r.Code, r.Out)
		}
		if r.Code != test.code || !strings.Contains(r.Err, test.want) || strings.Contains(r.Err, "secret") || strings.Count(r.Err, "\n") > 3 {
			t.Errorf("%s: exit code %d, %s", test.url, r.Code, r.Err)
		}
	}
}
