package compression

import (
	"bytes"
	"testing"
)

// TestCompress: texts come back unchanged, short and random ones too, and a dictionary
// makes similar ones smaller.
func TestCompress(t *testing.T) {
	const document = `{"event":{"id":"rabbit@shop:1","action":"published"},"watership":{"queue":"orders","attempt":1}}`
	dictionary := []byte(document)
	sizes := map[bool]int{}
	for _, with := range []bool{false, true} {
		content := dictionary
		if !with {
			content = nil
		}
		c, err := NewCompressor(content)
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewDecompressor(content)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"", "}", "\x00\xff\x01", document, string(bytes.Repeat(dictionary, 1000))} {
			compressed := c.Compress([]byte(text))
			if got, err := d.Decompress(compressed); string(got) != text || err != nil {
				t.Errorf("%.20q came back as %.20q, %v", text, got, err)
			}
			if len(compressed) > len(text)+1 {
				t.Errorf("%.20q of %d bytes takes %d", text, len(text), len(compressed))
			}
			if text == document {
				sizes[with] = len(compressed)
			}
		}
		for _, corrupt := range []string{"\x02abc", "\x01abc"} {
			if got, err := d.Decompress([]byte(corrupt)); err == nil {
				t.Errorf("%q was read as %q", corrupt, got)
			}
		}
	}
	if sizes[true] > sizes[false]/2 {
		t.Errorf("with a dictionary %d bytes, without one %d", sizes[true], sizes[false])
	}
}
