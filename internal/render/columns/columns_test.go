package columns_test

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/schemas"
)

// A command with the logins of the servers has no address.
func TestAuditText(t *testing.T) {
	var e schemas.Event
	e.Audit.User, e.Audit.Method, e.Audit.Operation, e.Audit.Object = "ada", "logins", "add route", "invoices"
	for address, want := range map[string]string{
		"": "add route invoices by ada (logins)", "::1": "add route invoices by ada (logins) from ::1",
	} {
		e.Audit.Address = address
		if got := columns.AuditText(e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNamesOfKeysWithDots(t *testing.T) {
	d, err := columns.Parse([]byte(`{"headers": {"a.b": {"c": "1"}, "a": {"b.c": "2", "x": "3"}}, "a": "4", "list": [1, {"b": 2}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"headers.a.b.c": "1", "headers.a.x": "3", "a": "4", "headers.a.y": "", "b": "", "list": `[1,{"b":2}]`, "headers.a.b": `{"c":"1"}`,
	} {
		if got := d.Text(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if _, err := columns.Parse([]byte(`{"a"`)); err == nil {
		t.Error("half a document has no error")
	}
}

// A spreadsheet calculates nothing; numbers stay numbers, exactly.
func TestCSVHasNoFormulas(t *testing.T) {
	d, err := columns.Parse([]byte(`{"a": "=1+1", "b": "@x", "c": -5, "d": 9007199254740993, "e": "\t=2", "f": "a,\"b\"\nc"}`))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := columns.NewCSV(&out, nil)
	if err := w.WriteDocument(d, []string{"a", "b", "c", "d", "e", "f", "g"}); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	if want := "'=1+1,'@x,-5,9007199254740993,'\t=2,\"a,\"\"b\"\"\nc\",\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if got := columns.NewCSV(&out, strings.ToUpper).Escape("-a"); got != "'-A" {
		t.Errorf("got %q", got)
	}
}
