package jsonappend

import "bytes"

// OneLine appends valid JSON without line breaks, which JSON has only between
// values: a document must be one line in a bulk request and in lists.
func OneLine(dst, body []byte) []byte {
	begin := len(dst)
	dst = append(dst, body...)
	if bytes.IndexByte(body, '\n') < 0 && bytes.IndexByte(body, '\r') < 0 {
		return dst
	}
	for i := begin; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
	}
	return dst
}
