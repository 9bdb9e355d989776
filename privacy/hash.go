package privacy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// hashSize is the length of hashes in bytes. Among a hundred million values two share one with a
// probability of 1 to 200 million.
const hashSize = 10

const longestLabel = 20 // of a hash, in bytes

func hashBy(key []byte, as, value string) string {
	d := digest(key, value)
	return as + "_" + hex.EncodeToString(d[:])
}

func digest(key []byte, value string) (d [hashSize]byte) {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(value))
	var sum [sha256.Size]byte
	copy(d[:], mac.Sum(sum[:0]))
	return d
}

// hash returns the hash of a value by the newest key.
func (r *Redactor) hash(as, value string) string { return hashBy(r.cfg.HashKeys[0], as, value) }

// HasHash reports whether a text has a part with the form of a hash, so that it may be another one in
// the original.
func HasHash(text string) bool { return len(hashesIn(text, hasLabel)) > 0 }

// hasLabel reports whether a hash, which has the digits of one, has the label of one as well.
func hasLabel(hash string) bool { return isSmall(hash[0]) }

func isSmall(c byte) bool { return 'a' <= c && c <= 'z' }

// span is a part of a text.
type span struct{ begin, end int }

// hashesIn returns the hashes in a text, with the longest label that accept accepts.
func hashesIn(text string, accept func(hash string) bool) (found []span) {
	last := 0 // the end of the hash before
	for from := 0; ; {
		underscore := strings.IndexByte(text[from:], '_')
		if underscore < 0 {
			return found
		}
		underscore += from
		from = underscore + 1
		end := from + 2*hashSize
		if end > len(text) || strings.Trim(text[from:end], "0123456789abcdef") != "" {
			continue
		}
		begin := underscore
		for begin > max(last, underscore-longestLabel) && (isSmall(text[begin-1]) || isDigit(text[begin-1])) {
			begin--
		}
		for begin < underscore && !accept(text[begin:end]) {
			begin++
		}
		if begin < underscore {
			found = append(found, span{begin, end})
			last, from = end, end
		}
	}
}

// hash returns what replaces a value. It stays as it is if it has been replaced already.
func (w *work) hash(as, value string) string { return w.hashBy(w.key, as, value) }

func (w *work) hashBy(key []byte, as, value string) string {
	if len(value) <= longestLabel+1+2*hashSize {
		if hashes := w.hashesIn(value); len(hashes) == 1 && hashes[0] == (span{0, len(value)}) {
			return value
		}
	}
	hash := hashBy(key, as, value)
	if w.made == nil {
		w.made = map[string]bool{}
	}
	w.made[hash] = true
	return hash
}

// hashesIn returns the hashes in a text that have replaced values of the event. Other words of the
// same form do not count, unless the event was redacted before.
func (w *work) hashesIn(text string) []span {
	switch {
	case w.again:
		return hashesIn(text, hasLabel)
	case len(w.made) == 0:
		return nil
	}
	return hashesIn(text, func(hash string) bool { return w.made[hash] })
}

// between changes the parts of a text between its hashes.
func (w *work) between(text string, change func(part string) string) string {
	hashes := w.hashesIn(text)
	if len(hashes) == 0 {
		return change(text)
	}
	var b strings.Builder
	from := 0
	for _, hash := range append(hashes, span{len(text), len(text)}) {
		if from < hash.begin {
			b.WriteString(change(text[from:hash.begin]))
		}
		b.WriteString(text[hash.begin:hash.end])
		from = hash.end
	}
	return b.String()
}
