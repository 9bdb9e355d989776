package jsonscan

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// read returns the value that encoding/json decodes into an any.
func read(r *Reader) any {
	r.space()
	switch rest := r.data[r.at:]; {
	case len(rest) == 0:
		r.Skip()
	case rest[0] == '{':
		object := map[string]any{}
		r.Object(func(name []byte) {
			key := string(name)
			object[key] = read(r)
		})
		return object
	case rest[0] == '[':
		array := []any{}
		r.Array(func() { array = append(array, read(r)) })
		return array
	case rest[0] == '"':
		return r.Text()
	case rest[0] == 't', rest[0] == 'f':
		return r.Bool()
	case rest[0] == 'n':
		if !r.null() {
			r.Skip()
		}
		return nil
	default:
		return r.Float(64)
	}
	return nil
}

// FuzzReader: the Reader reads all JSON that encoding/json reads, with the same
// result. Other data gives an error or at least no panic.
func FuzzReader(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-2.5e3,true,false,null,{}],"b\u00e9\n":"x\ud83d\ude00\ud83d\\\"","":[]}`, ` [ ] `, `"\u12"`, `{"a" 1}`, `[1 2]`,
		`[1,]`, `{"a":1}x`, `"` + strings.Repeat(`\\`, 50), strings.Repeat("[", 20_000), `-`, `tru`, `"\x"`, `{"a":}`, `]`,
		`{"a":"b\`, "\"\\\xff\"", "", "[[[[1]]]]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := New(data)
		got := read(r)
		err := r.End()
		var want any
		if json.Unmarshal(data, &want) != nil {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if !reflect.DeepEqual(utf8Valid(got), want) {
			t.Fatalf("%q: got %#v, want %#v", data, got, want)
		}
		if alike := read(NewOfMany(data)); !reflect.DeepEqual(utf8Valid(alike), want) {
			t.Fatalf("%q: got %#v where strings are kept, want %#v", data, alike, want)
		}
		skipped := New(data)
		if skipped.Skip(); skipped.End() != nil {
			t.Fatalf("%q: skipped it: %v", data, skipped.Err())
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			t.Fatal(err)
		}
		if got := join(New(data)); got != compact.String() {
			t.Fatalf("%q: tokens %q, want %q", data, got, compact.String())
		}
	})
}

// join returns the tokens without the white space between them.
func join(r *Reader) (joined string) {
	for token := r.Token(); token != nil; token = r.Token() {
		joined += string(token)
	}
	return joined
}

// utf8Valid replaces bytes that are not UTF-8 as encoding/json does.
func utf8Valid(value any) any {
	switch v := value.(type) {
	case string:
		var plain string
		quoted, _ := json.Marshal(v)
		_ = json.Unmarshal(quoted, &plain)
		return plain
	case []any:
		for i := range v {
			v[i] = utf8Valid(v[i])
		}
	case map[string]any:
		for _, key := range keys(v) {
			value := utf8Valid(v[key])
			delete(v, key)
			v[utf8Valid(key).(string)] = value
		}
	}
	return value
}

func keys(object map[string]any) []string {
	var list []string
	for key := range object {
		list = append(list, key)
	}
	return list
}

func TestReaderRefuses(t *testing.T) {
	for text, read := range map[string]func(*Reader){
		`{"a":1`:     func(r *Reader) { r.Object(func([]byte) {}) },
		`{"a"}`:      func(r *Reader) { r.Object(func([]byte) {}) },
		`[1,2`:       func(r *Reader) { r.Array(func() {}) },
		`{}`:         func(r *Reader) { r.Array(func() {}) },
		`1.5`:        func(r *Reader) { r.Int(64) },
		`128`:        func(r *Reader) { r.Int(8) },
		`-1`:         func(r *Reader) { r.Uint(64) },
		`"!"`:        func(r *Reader) { r.Bytes() },
		`"tomorrow"`: func(r *Reader) { r.Time() },
		`1`:          func(r *Reader) { r.Text() },
		`yes`:        func(r *Reader) { r.Bool() },
		`x`:          func(r *Reader) { r.Float(64) },
		`"a" "b"`:    func(r *Reader) { r.Text() },
		`}`:          func(r *Reader) { r.Raw() },
	} {
		r := New([]byte(text))
		read(r)
		if r.End() == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestReaderReads(t *testing.T) {
	r := New([]byte(`{"bytes":"AP8=","none":null,"big":18446744073709551615,"raw":{"a":[1, "]"]},"left":[1,{"x":"}"}],"time":"2026-11-21T03:00:00.5Z","text":["a\nb","c"]}`))
	r.Object(func(name []byte) {
		switch string(name) {
		case "bytes":
			if got := r.Bytes(); !bytes.Equal(got, []byte{0, 0xff}) {
				t.Errorf("bytes %x", got)
			}
		case "none":
			if got := r.Bytes(); got != nil {
				t.Errorf("null is %x", got)
			}
		case "big":
			if got := r.Uint(64); got != math.MaxUint64 {
				t.Errorf("big is %d", got)
			}
		case "raw":
			if got := string(r.Raw()); got != `{"a":[1, "]"]}` {
				t.Errorf("raw is %s", got)
			}
		case "time":
			if got := r.Time(); got.Nanosecond() != 5e8 {
				t.Errorf("time is %s", got)
			}
		case "text":
			var got []string
			r.Array(func() { got = append(got, string(r.TextBytes())) })
			if !slices.Equal(got, []string{"a\nb", "c"}) {
				t.Errorf("text is %q", got)
			}
		}
	})
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
}

// A caller may change the bytes that it received.
func TestReaderGivesBytesOfTheCallersOwn(t *testing.T) {
	data := []byte(`["plain","esc\"aped"]`)
	want := string(data)
	r := New(data)
	r.Array(func() { clear(r.TextBytes()) })
	if r.End() != nil || string(data) != want {
		t.Errorf("the data is now %s", data)
	}
}

func TestReaderGoesOnBehindAPart(t *testing.T) {
	r := New([]byte(`[{"n":1,"m":2}, {"n":"one","m":[2]}, {"n":3}]`))
	var numbers []int64
	var problems []string
	r.Array(func() {
		err := r.Part(func(r *Reader) {
			r.Object(func(name []byte) {
				if string(name) == "n" {
					numbers = append(numbers, r.Int(64))
				}
			})
		})
		if err != nil {
			problems = append(problems, err.Error())
		}
	})
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(numbers, []int64{1, 0, 3}) || !slices.Equal(problems, []string{"JSON: expected a value at byte 5"}) {
		t.Errorf("read %v, with %q", numbers, problems)
	}
	alone := New([]byte(` "one" `))
	if err := alone.Part(func(r *Reader) { r.Int(64) }); err == nil || alone.End() != nil {
		t.Errorf("the part: %v, all of it: %v", err, alone.Err())
	}
}

// A part without an end is an error of the whole reader, too.
func TestReaderRefusesPartsThatDoNotEnd(t *testing.T) {
	for _, text := range []string{`[{"n":1`, `[}]`, `[`} {
		r := New([]byte(text))
		r.Array(func() { _ = r.Part((*Reader).Skip) })
		if r.End() == nil {
			t.Errorf("%s was read", text)
		}
	}
}
