package schemas

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// maxDecompressed bounds the text of a compressed body: a few bytes may stand for gigabytes.
const maxDecompressed = 4 << 20 // bytes

// BodyText returns the text of a body, in UTF-8 and without a byte order mark: decompressed if
// content_encoding is gzip or deflate, and decoded from the charset of content_type or
// content_encoding, or from UTF-16 with a byte order mark. It returns false for a body that is no
// text, and for one whose text is longer than 4 MiB compressed.
func (e Envelope) BodyText() (text []byte, isText bool) {
	if text, decoded := e.decodedText(); decoded {
		return text, true
	}
	return withoutMark(e.Body), utf8.Valid(e.Body)
}

// decodedText returns the text of a body that is not UTF-8 as it is; false for any other.
func (e Envelope) decodedText() (text []byte, decoded bool) {
	if utf8.Valid(e.Body) && !namesUTF16(e.Properties.ContentType) && !namesUTF16(e.Properties.ContentEncoding) {
		return nil, false
	}
	compression, charset := e.Properties.encodings()
	text = e.Body
	if compression != "" {
		if text, decoded = decompress(e.Body, compression); !decoded {
			return nil, false
		}
	}
	switch {
	case hasUTF16Mark(text):
		charset = "utf-16"
	case utf8.Valid(text) && !namesUTF16(charset):
		return withoutMark(text), decoded
	}
	text, err := decoderOf(charset).Bytes(text)
	if err != nil {
		return nil, false
	}
	return withoutMark(text), true
}

// encodings returns the compression and the charset of a body, "" if none exists. Clients write
// both into content_encoding, such as gzip:UTF-8 of Spring.
func (p Properties) encodings() (compression, charset string) {
	if _, parameters, err := mime.ParseMediaType(p.ContentType); err == nil {
		charset = strings.ToLower(parameters["charset"])
	}
	for _, name := range strings.FieldsFunc(strings.ToLower(p.ContentEncoding), func(r rune) bool { return strings.ContainsRune(":,; ", r) }) {
		switch {
		case name == "gzip", name == "x-gzip", name == "deflate":
			compression = name
		case charset == "":
			charset = name
		}
	}
	return compression, charset
}

func namesUTF16(text string) bool {
	return strings.IndexByte(text, '1') >= 0 && strings.Contains(strings.ToLower(text), "utf-16")
}

func hasUTF16Mark(text []byte) bool {
	return bytes.HasPrefix(text, []byte{0xfe, 0xff}) || bytes.HasPrefix(text, []byte{0xff, 0xfe})
}

// decoderOf returns the decoder of a charset, whose bytes are no UTF-8. One that is not known
// has a decoder that fails.
func decoderOf(charset string) *encoding.Decoder {
	switch charset {
	case "utf-16", "utf-16le":
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder()
	case "utf-16be":
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewDecoder()
	}
	found, err := htmlindex.Get(charset)
	if err != nil || slices.Contains([]encoding.Encoding{unicode.UTF8, encoding.Replacement}, found) {
		return &encoding.Decoder{Transformer: encoding.UTF8Validator}
	}
	return found.NewDecoder()
}

// decompress decompresses a body. The format of deflate is zlib (RFC 9110 §8.4.1.2), which
// some clients leave out.
func decompress(body []byte, compression string) (text []byte, ok bool) {
	if compression == "deflate" {
		if r, err := zlib.NewReader(bytes.NewReader(body)); err == nil {
			return readBounded(r)
		}
		return readBounded(flate.NewReader(bytes.NewReader(body)))
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, false
	}
	return readBounded(r)
}

func readBounded(r io.Reader) ([]byte, bool) {
	text, err := io.ReadAll(io.LimitReader(r, maxDecompressed+1))
	return text, err == nil && len(text) <= maxDecompressed
}
