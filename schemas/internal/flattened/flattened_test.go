package flattened

import (
	"bytes"
	"strings"
	"testing"
)

// isWhole reports whether all of a body is appended.
func isWhole(body []byte, most int) bool {
	appended, ok := Append(nil, body, most)
	return ok && bytes.Equal(appended, body)
}

// A body is appended whole up to each limit, and not one step beyond.
func TestLimits(t *testing.T) {
	nest := func(open, end string, depth int) string {
		return strings.Repeat(open, depth-1) + `{"a":1}` + strings.Repeat(end, depth-1)
	}
	long := func(size int) string { return strings.Repeat("x", size) }
	for name, body := range map[string]func(beyond int) string{
		"depth of objects":      func(beyond int) string { return nest(`{"a":`, "}", MaxDepth+beyond) },
		"depth with arrays":     func(beyond int) string { return `{"a":` + nest("[", "]", MaxDepth-1+beyond) + "}" },
		"text with its key":     func(beyond int) string { return `{"k":"` + long(MaxTerm-len(`k."".`)+beyond) + `"}` },
		"text in an object":     func(beyond int) string { return `{"k":{"l":"` + long(MaxTerm-len(`k.l."".`)+beyond) + `"}}` },
		"text in an array":      func(beyond int) string { return `{"k":["` + long(MaxTerm-len(`k."".`)+beyond) + `"]}` },
		"a key":                 func(beyond int) string { return `{"` + long(MaxTerm-len(`.1.`)+beyond) + `":1}` },
		"digits of a number":    func(beyond int) string { return `{"k":1` + strings.Repeat("0", longestNumber-1+beyond) + "}" },
		"digits of a fraction":  func(beyond int) string { return `{"k":0.` + strings.Repeat("1", longestNumber-2+beyond) + "}" },
		"number of values":      func(beyond int) string { return `{"k":[0` + strings.Repeat(",0", 5000-1+beyond) + "]}" },
		"values of all objects": func(beyond int) string { return `{"k":[{"a":0}` + strings.Repeat(`,{"a":true}`, 5000-1+beyond) + "]}" },
	} {
		if !isWhole([]byte(body(0)), 5000) {
			t.Errorf("%s: the limit itself is refused", name)
		}
		if isWhole([]byte(body(1)), 5000) {
			t.Errorf("%s: one beyond the limit is accepted", name)
		}
	}
}

// The size of all values together counts their paths: as many values fit in fewer
// bytes of body if their key is long.
func TestPathsCount(t *testing.T) {
	values := func(key string) (most int) {
		low, high := 1, 1<<18
		for low < high {
			middle := (low + high + 1) / 2
			if isWhole([]byte(`{"`+key+`":[0`+strings.Repeat(",0", middle-1)+"]}"), 1<<30) {
				low = middle
			} else {
				high = middle - 1
			}
		}
		return low
	}
	for _, size := range []int{1, 1000, 30_000} {
		const zero = len(".0")
		if got, want := values(strings.Repeat("k", size)), allTerms/(size+zero+termOverhead); got != want {
			t.Errorf("a key of %d bytes: %d values are accepted, want %d", size, got, want)
		}
	}
}

// A body that ends early is refused, wherever it ends.
func TestIncompleteBodies(t *testing.T) {
	const body = `{"a\u0041\n":[1,-0.5e+3,true,false,null,"x\"y",{}],"b":{"c":{}} }`
	if !isWhole([]byte(body), 100) {
		t.Fatal("the whole body is refused")
	}
	for end := range body {
		if isWhole([]byte(body[:end]), 100) {
			t.Errorf("%s is accepted", body[:end])
		}
	}
	for at := range body {
		if body[at] != ' ' && isWhole([]byte(body[:at]+"\x01"+body[at:]), 100) {
			t.Errorf("a control character before byte %d is accepted", at)
		}
	}
}

// The keys of an object that was closed do not count for the objects after it, in any
// number of keys around the room of the scanner.
func TestKeysOfSiblings(t *testing.T) {
	for keys := range 70 {
		object := wideObject(keys, "")
		if body := `{"a":` + object + `,"b":` + object + `}`; !isWhole([]byte(body), 1000) {
			t.Errorf("%d keys in each of two objects are refused", keys)
		}
		if keys == 0 {
			continue
		}
		for _, last := range []string{`"k0":2`, `"\u006b0":2`} {
			if isWhole([]byte(wideObject(keys, last)), 1000) {
				t.Errorf("the first of %d keys is accepted twice, as %s", keys, last)
			}
		}
	}
}

// What a flattened field would refuse costs a body nothing else.
func TestOnlyWhatIsRefusedIsLeftOut(t *testing.T) {
	long, deep := strings.Repeat("x", MaxTerm), strings.Repeat(`{"a":`, MaxDepth)+`{"b":1}`+strings.Repeat("}", MaxDepth)
	digits := strings.Repeat("1", longestNumber+1)
	for body, want := range map[string]string{
		`{"order":42,"pdf":"` + long + `"}`:                                  `{"order":42}`,
		`{"pdf":"` + long + `","order":42}`:                                  `{"order":42}`,
		`{"pdf":"` + long + `"}`:                                             `{}`,
		`{"lines":["` + long + `",1,{"` + long + `":2,"sku":"a"}],"b":[[]]}`: `{"lines":[1,{"sku":"a"}],"b":[[]]}`,
		`{"order":42,"a":1,"a":2}`:                                           `{"order":42,"a":2}`,
		`{"a":{"x":"} ,\""},"b":1,"\u0061":{"y":3}}`:                         `{"b":1,"\u0061":{"y":3}}`,
		`{"a":1,"b":2,"a":"` + long + `"}`:                                   `{"b":2}`,
		"{\n\"order\" : 42,\r\n\"\\u0000\":{\"a\":[1]} , \"b\":1 }":          `{"order":42,"b":1}`,
		`{"order":42,"deep":` + deep + `,"b":[` + deep + `]}`:                `{"order":42,"deep":` + strings.Repeat(`{"a":`, MaxDepth-2) + "{}" + strings.Repeat("}", MaxDepth-2) + `,"b":[` + strings.Repeat(`{"a":`, MaxDepth-3) + "{}" + strings.Repeat("}", MaxDepth-3) + `]}`,
		`{"order":42,"n":` + digits + `,"m":-0.` + digits + `e+1}`:           `{"order":42}`,
		`[{"order":42},{"order":43}]`:                                        `[{"order":42},{"order":43}]`,
		`[[42,"a"],{"id":7},{"callbacks":null}]`:                             `[{"id":7},{"callbacks":null},{"":[42,"a"]}]`,
		` [ [ [ { "order" : 42 } , true ] ] , "` + long + `" ] `:             `[{"order":42},{"":[true]}]`,
		`[null]`: `[{"":[null]}]`,
	} {
		if got, ok := Append([]byte("before "), []byte(body), 5000); !ok || string(got) != "before "+want {
			t.Errorf("of %.100s is left\n%s\nwant\n%s", body, got, want)
		}
	}
	for _, body := range []string{"", " ", "42", `"text"`, "null", "[]", "[[],[]]", `{"a":1`, `{"a":1,"a":2`, "[1", "[1}", `[1] 2`, `{"a":1,"a":2} {}`, strings.Repeat("[", 1<<20)} {
		if got, ok := Append([]byte("before"), []byte(body), 5000); ok || string(got) != "before" {
			t.Errorf("of %.100s is left %s", body, got)
		}
	}
	for _, body := range []string{`[1,2,3]`, `{"a":[1,2,3],"a":1}`, `[[1,2],{"a":1}]`, `{"a":1,"a":2,"a":3}`} {
		if got, ok := Append(nil, []byte(body), 2); ok {
			t.Errorf("of %s, which has three values, is left %s", body, got)
		}
	}
}

// The time for a body grows with its length, however often its keys repeat.
func BenchmarkRepeatedKeys(b *testing.B) {
	body := "{" + strings.Repeat(`"a":{"b":[{},{},{}]},`, 1<<18) + `"a":1}`
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if got, ok := Append(nil, []byte(body), 5000); !ok || string(got) != `{"a":1}` {
			b.Fatalf("%.100s", got)
		}
	}
}
