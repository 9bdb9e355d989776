package adoptions

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// readPHPEnvelope returns a body that Symfony's PhpSerializer wrote, as it was without the
// stamps of a failure, and what these say.
func readPHPEnvelope(body []byte) (before []byte, failures []symfonyError, retries []symfonyRetry, err error) {
	if !bytes.HasSuffix(body, []byte("}")) {
		if body, err = base64.StdEncoding.DecodeString(string(body)); err != nil {
			return nil, nil, nil, err
		}
	}
	r := phpReader{text: withoutSlashes(body)}
	if !strings.HasPrefix(r.text, `O:36:"Symfony\Component\Messenger\Envelope":`) {
		return nil, nil, nil, errors.New("it is no envelope")
	}
	failed := false
	stamps := func(stamp string) error {
		failed = failed || stamp == symfonySent
		switch stamp {
		case symfonyDetails:
			return r.each(func(string) error {
				var e symfonyError
				err := r.fields(map[string]func() error{
					"exceptionClass": r.into(&e.Class), "exceptionMessage": r.into(&e.Message),
					"flattenException": func() error {
						return r.fields(map[string]func() error{"traceAsString": r.into(&e.Exception.Trace)})
					},
				})
				failures = append(failures, e)
				return err
			})
		case symfonyRedelivery:
			return r.each(func(string) error {
				var count, date, zone string
				err := r.fields(map[string]func() error{
					"retryCount": r.into(&count),
					"redeliveredAt": func() error {
						return r.fields(map[string]func() error{"date": r.into(&date), "timezone": r.into(&zone)})
					},
				})
				n, _ := strconv.Atoi(count)
				retries = append(retries, symfonyRetry{n, phpTime(date, zone)})
				return err
			})
		}
		return r.skip()
	}
	err = r.fields(map[string]func() error{"stamps": func() error {
		if r.edits != nil {
			return errors.New("it has two lists of stamps")
		}
		return r.without(isOfSymfonysFailure, stamps)
	}})
	switch {
	case err != nil:
		return nil, nil, nil, err
	case !failed:
		return nil, nil, nil, errors.New("it has not been sent to a failure transport")
	}
	before, err = r.edited()
	return before, failures, retries, err
}

// phpTime returns a DateTimeImmutable as RFC 3339 has it, "" if its zone is unknown here.
func phpTime(date, zone string) string {
	location, err := time.LoadLocation(zone)
	if offset, is := time.Parse("-07:00", zone); is == nil {
		location, err = offset.Location(), nil
	}
	if err != nil {
		return ""
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05.999999", date, location)
	if err != nil {
		return ""
	}
	return at.Format(time.RFC3339Nano)
}

// phpReader reads what PHP's serialize wrote, and takes entries out. It makes no objects of it,
// since anybody may have written it.
type phpReader struct {
	text  string
	at    int
	depth int

	entry int // where the entry of a list begins

	// A reference names a value by its number, from 1 on.
	values     int
	references []phpReference
	removed    []phpRange
	edits      []phpEdit
}

type phpReference struct{ from, to, number int }

func (p phpReference) within(gone phpRange) bool { return p.from > gone.from && p.to < gone.to }

// phpRange has the values whose numbers are above before, up to last.
type phpRange struct{ from, to, before, last int }

type phpEdit struct {
	from, to int
	text     string
}

const maxPHPDepth = 500

// withSlashes is PHP's addslashes.
var withSlashes = strings.NewReplacer("\x00", `\0`, `"`, `\"`, `'`, `\'`, `\`, `\\`)

// withoutSlashes is PHP's stripslashes.
func withoutSlashes(text []byte) string {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' {
			if i++; i == len(text) {
				break
			}
			if c = text[i]; c == '0' {
				c = 0
			}
		}
		plain.WriteByte(c)
	}
	return plain.String()
}

// value reads a value, and returns the text of one that is no list, object or reference. each is called for each
// entry, and reads its value.
func (r *phpReader) value(each func(key string) error) (text string, err error) {
	if r.depth++; r.depth > maxPHPDepth {
		return "", fmt.Errorf("it is more than %d levels deep", maxPHPDepth)
	}
	defer func() { r.depth-- }()
	r.values++
	switch kind := r.text[r.at:min(r.at+2, len(r.text))]; kind {
	case "N;":
		r.at += 2
		return "", nil
	case "r:", "R:": // to an object, and to a variable
		from := r.at + 2
		number, err := r.number(";")
		r.references = append(r.references, phpReference{from, r.at - 1, number})
		if kind == "R:" {
			r.values--
		}
		return "", err
	case "a:":
		return "", r.entries(each)
	case "O:":
		if _, err := r.counted(`"`, `"`); err != nil {
			return "", err
		}
		r.at-- // the number of entries follows a colon, and no letter
		return "", r.entries(each)
	}
	return r.scalar()
}

// scalar reads a number, a boolean, a text or a case of an enumeration.
func (r *phpReader) scalar() (string, error) {
	switch r.text[r.at:min(r.at+2, len(r.text))] {
	case "i:", "b:", "d:":
		length := strings.IndexByte(r.text[r.at:], ';')
		if length < 0 {
			return "", r.unexpected()
		}
		text := r.text[r.at+2 : r.at+length]
		r.at += length + 1
		return text, nil
	case "s:", "E:":
		return r.counted(`"`, `";`)
	}
	return "", r.unexpected()
}

// number reads a number after a letter and a colon.
func (r *phpReader) number(end string) (int, error) {
	text, _, found := strings.Cut(r.text[min(r.at+2, len(r.text)):], end)
	n, err := strconv.ParseUint(text[:min(len(text), 20)], 10, 31)
	if !found || err != nil {
		return 0, r.unexpected()
	}
	r.at += 2 + len(text) + len(end)
	return int(n), nil
}

// counted reads a text whose length in bytes precedes it.
func (r *phpReader) counted(begin, end string) (string, error) {
	length, err := r.number(":" + begin)
	if err != nil {
		return "", err
	}
	if length > len(r.text)-r.at || !strings.HasPrefix(r.text[r.at+length:], end) {
		return "", r.unexpected()
	}
	text := r.text[r.at : r.at+length]
	r.at += length + len(end)
	return text, nil
}

func (r *phpReader) entries(each func(key string) error) error {
	count, err := r.number(":{")
	if err != nil {
		return err
	}
	for range count {
		r.entry = r.at
		key, err := r.scalar()
		if err != nil {
			return err
		}
		if each == nil {
			err = r.skip()
		} else {
			err = each(key[strings.LastIndexByte(key, 0)+1:]) // a private one begins with its class between zero bytes
		}
		if err != nil {
			return err
		}
	}
	if !strings.HasPrefix(r.text[r.at:], "}") {
		return r.unexpected()
	}
	r.at++
	return nil
}

func (r *phpReader) unexpected() error {
	return fmt.Errorf("byte %d of it is not as PHP serializes", r.at)
}

func (r *phpReader) each(f func(key string) error) error {
	_, err := r.value(f)
	return err
}

func (r *phpReader) skip() error { return r.each(nil) }

// into returns a function that reads a text.
func (r *phpReader) into(text *string) func() error {
	return func() (err error) {
		*text, err = r.value(nil)
		return err
	}
}

// fields reads an object by the functions for its fields.
func (r *phpReader) fields(read map[string]func() error) error {
	return r.each(func(name string) error {
		if f := read[name]; f != nil {
			return f()
		}
		return r.skip()
	})
}

// without reads a list, and takes the entries with some keys out. A key that is there twice is an
// error, as each entry that is taken out costs edited a look at each reference.
func (r *phpReader) without(unwanted func(key string) bool, each func(key string) error) error {
	if !strings.HasPrefix(r.text[r.at:], "a:") {
		return r.unexpected()
	}
	begin, kept, seen := r.at+2, 0, map[string]bool{}
	err := r.each(func(key string) error {
		if seen[key] {
			return fmt.Errorf("it has two entries %q", key)
		}
		seen[key] = true
		from, before := r.entry, r.values
		if err := each(key); err != nil {
			return err
		}
		if unwanted(key) {
			r.removed = append(r.removed, phpRange{from, r.at, before, r.values})
		} else {
			kept++
		}
		return nil
	})
	length := strings.IndexByte(r.text[begin:], ':')
	r.edits = append(r.edits, phpEdit{begin, begin + max(length, 0), strconv.Itoa(kept)})
	return err
}

// edited returns the text without the entries that were taken out, as PhpSerializer writes it.
func (r *phpReader) edited() ([]byte, error) {
	if r.at != len(r.text) {
		return nil, r.unexpected()
	}
	for _, gone := range r.removed {
		r.edits = append(r.edits, phpEdit{gone.from, gone.to, ""})
	}
	for _, reference := range r.references {
		if slices.ContainsFunc(r.removed, reference.within) {
			continue
		}
		number := reference.number
		for _, gone := range r.removed {
			switch {
			case reference.number > gone.last:
				number -= gone.last - gone.before
			case reference.number > gone.before:
				return nil, errors.New("it refers to a stamp of the failure")
			}
		}
		r.edits = append(r.edits, phpEdit{reference.from, reference.to, strconv.Itoa(number)})
	}
	slices.SortFunc(r.edits, func(a, b phpEdit) int { return cmp.Compare(a.from, b.from) })
	var text strings.Builder
	at := 0
	for _, edit := range r.edits {
		text.WriteString(r.text[at:edit.from])
		text.WriteString(edit.text)
		at = edit.to
	}
	text.WriteString(r.text[at:])
	if body := withSlashes.Replace(text.String()); utf8.ValidString(body) {
		return []byte(body), nil
	} else {
		return base64.StdEncoding.AppendEncode(nil, []byte(body)), nil
	}
}
