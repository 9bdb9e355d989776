package messageform

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/tablejson"
)

// Header is a header as texts.
type Header struct {
	Name      string
	IsEncoded bool   // the name is base64
	Type      string // one of Types
	Value     string // JSON as package tablejson has it; texts without quotes, times as in RFC 3339
}

// Types returns the types of headers, as package tablejson has them.
func Types() []string {
	return []string{
		"string", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64", "decimal",
		"time", "string64", "bytes", "table", "array", "void", "float32_bits", "float64_bits",
	}
}

// IsEmpty reports whether the row of a header was left empty.
func (h Header) IsEmpty() bool { return h.Name == "" && h.Value == "" && h.Type != "void" }

func headersOf(table amqp.Table) []Header {
	var headers []Header
	for _, name := range slices.Sorted(maps.Keys(table)) {
		h := Header{Name: name}
		if !isText(name, "") {
			h.Name, h.IsEncoded = base64.StdEncoding.EncodeToString([]byte(name)), true
		}
		h.Type, h.Value = typedValue(table[name])
		headers = append(headers, h)
	}
	return headers
}

// typedValue returns the type and the text of a value.
func typedValue(value any) (kind, text string) {
	switch v := value.(type) {
	case string:
		if isText(v, "\t") {
			return "string", v
		}
		return "string64", base64.StdEncoding.EncodeToString([]byte(v))
	case time.Time:
		if v.Unix() >= 0 && v.Year() <= 9999 {
			return "time", v.UTC().Format(time.RFC3339)
		}
	}
	var members []map[string]json.RawMessage
	_ = json.Unmarshal(tablejson.Append(nil, amqp.Table{"": value}), &members) // Append writes JSON
	for name, raw := range members[0] {
		if name != "key" {
			kind, text = name, string(raw)
		}
	}
	if kind == "bytes" {
		_ = json.Unmarshal([]byte(text), &text)
	}
	return kind, text
}

// member returns a header as the API has it in typed_headers.
func (h Header) member() (map[string]json.RawMessage, error) {
	key := "key"
	if h.IsEncoded {
		key = "key64"
	}
	value := []byte(h.Value)
	switch h.Type {
	case "string", "string64", "bytes":
		value = quoted(h.Value)
	case "void":
		value = []byte("true")
	case "time":
		if at, err := time.Parse(time.RFC3339, h.Value); err == nil {
			value = strconv.AppendInt(nil, at.Unix(), 10)
		}
	}
	if !json.Valid(value) {
		return nil, fmt.Errorf("header %q: expected a value of type %s, found %q", h.Name, h.Type, h.Value)
	}
	return map[string]json.RawMessage{key: quoted(h.Name), h.Type: value}, nil
}

func quoted(text string) []byte {
	made, _ := json.Marshal(text) // a string has JSON
	return made
}

// readHeaders reads the rows of headers, without those that are marked to be left out.
func readHeaders(values url.Values) []Header {
	var headers []Header
	for i := 0; ; i++ {
		row := "header." + strconv.Itoa(i)
		kind, found := values[row+".type"]
		if !found {
			return headers
		}
		h := Header{Name: values.Get(row + ".name"), IsEncoded: values.Get(row+".encoded") != "", Type: strings.Join(kind[:1], ""), Value: values.Get(row + ".value")}
		if values.Get(row+".drop") == "" && !h.IsEmpty() {
			headers = append(headers, h)
		}
	}
}
