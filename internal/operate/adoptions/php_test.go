package adoptions

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// phpBody returns a body of PhpSerializer with stamps, each under its class, and the text of a
// message.
func phpBody(message string, stamps ...string) []byte {
	var list strings.Builder
	for _, stamp := range stamps {
		fmt.Fprintf(&list, `s:%d:"%s";a:1:{i:0;O:%d:"%s":1:{s:1:"x";s:1:"y";}}`, len(stamp), stamp, len(stamp), stamp)
	}
	return []byte(withSlashes.Replace(fmt.Sprintf("O:36:\"Symfony\\Component\\Messenger\\Envelope\":2:{s:44:\"\x00Symfony\\Component\\Messenger\\Envelope\x00stamps\";a:%d:{%s}s:45:\"\x00Symfony\\Component\\Messenger\\Envelope\x00message\";%s}",
		len(stamps), list.String(), message)))
}

func TestPHPEnvelopesWithoutTheStampsOfAFailure(t *testing.T) {
	const bus = symfonyStamps + "BusNameStamp"
	for name, message := range map[string]string{
		"scalars":         `a:6:{i:0;i:-7;i:1;d:0.5;i:2;b:1;i:3;N;s:1:"k";s:6:"it's""";i:5;E:11:"Suit:Hearts";}`,
		"text in UTF-8":   `s:7:"violín";`,
		"bytes":           "s:2:\"\xff\x00\";",
		"a long key":      `O:1:"M":1:{s:4:"` + "\x00M\x00" + `a";s:0:"";}`,
		"an empty object": `O:8:"stdClass":0:{}`,
	} {
		before, failed := phpBody(message, bus), phpBody(message, bus, symfonyDelay, symfonySent)
		if name == "bytes" {
			before = base64.StdEncoding.AppendEncode(nil, before)
			failed = base64.StdEncoding.AppendEncode(nil, failed)
		}
		if got, _, _, err := readPHPEnvelope(failed); err != nil || string(got) != string(before) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, before)
		}
	}
}

// A value has a number, by which later ones refer to it; the list of stamps is the second.
func TestReferencesOfPHPFollowTheirValues(t *testing.T) {
	order := func(number int) string {
		return fmt.Sprintf(`O:1:"M":3:{s:1:"a";O:8:"stdClass":0:{}s:1:"b";r:%d;s:1:"c";R:%[1]d;}`, number)
	}
	got, _, _, err := readPHPEnvelope(phpBody(order(2+3+2), symfonySent))
	if want := phpBody(order(2 + 2)); err != nil || string(got) != string(want) {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if got, _, _, err := readPHPEnvelope(phpBody(order(4), symfonySent)); err == nil {
		t.Errorf("a reference to a stamp: %s", got)
	}
	same := phpBody(order(1), symfonySent)
	if got, _, _, err := readPHPEnvelope(same); err != nil || string(got) != string(phpBody(order(1))) {
		t.Errorf("a reference to the envelope: %s, %v", got, err)
	}
}

// A stamp of the failure may refer to a value of another one: both are taken out.
func TestReferencesOfPHPBetweenStampsOfAFailure(t *testing.T) {
	stamp := func(class, value string) string {
		return fmt.Sprintf(`s:%d:"%s";a:1:{i:0;%s}`, len(class), class, value)
	}
	body := fmt.Sprintf("O:36:\"Symfony\\Component\\Messenger\\Envelope\":1:{s:6:\"stamps\";a:2:{%s%s}}", stamp(symfonySent, `O:1:"S":0:{}`), stamp(symfonyDelay, "r:4;"))
	want := withSlashes.Replace("O:36:\"Symfony\\Component\\Messenger\\Envelope\":1:{s:6:\"stamps\";a:0:{}}")
	if got, _, _, err := readPHPEnvelope([]byte(withSlashes.Replace(body))); err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestBodiesThatPHPDidNotSerialize(t *testing.T) {
	whole := string(phpBody(`O:1:"M":1:{s:1:"a";a:1:{i:0;r:1;}}`, symfonySent))
	for end := range whole {
		if got, _, _, err := readPHPEnvelope([]byte(whole[:end])); err == nil {
			t.Errorf("%d bytes are read as %s", end, got)
		}
	}
	for name, body := range map[string]string{
		"not failed":      string(phpBody("N;")),
		"more after it":   whole + "}",
		"a long text":     string(phpBody(`s:2147483647:"a";`, symfonySent)),
		"a huge list":     string(phpBody(`a:2147483647:{i:0;N;}`, symfonySent)),
		"a negative one":  string(phpBody(`a:-1:{}`, symfonySent)),
		"a deep one":      string(phpBody(strings.Repeat("a:1:{i:0;", 600)+"N;"+strings.Repeat("}", 600), symfonySent)),
		"stamps as text":  strings.Replace(whole, "a:1:{s:61", "s:1:{s:61", 1),
		"another object":  `O:8:\"stdClass\":0:{}`,
		"a stamp twice":   string(phpBody("N;", symfonySent, symfonySent)), // each costs a look at each reference
		"stamps twice":    strings.NewReplacer("s:45:", "s:44:", `message\";N;`, `stamps\";a:0:{}`).Replace(string(phpBody("N;", symfonySent))),
		"a custom object": string(phpBody(`C:1:"M":2:{ab}`, symfonySent)),
	} {
		if got, _, _, err := readPHPEnvelope([]byte(body)); err == nil {
			t.Errorf("%s is read as %s", name, got)
		}
	}
}

func TestTimesOfPHP(t *testing.T) {
	for _, test := range []struct{ date, zone, want string }{
		{"2026-11-30 06:11:52.369700", "UTC", "2026-11-30T06:11:52.3697Z"},
		{"2026-11-30 06:11:52.000000", "+01:00", "2026-11-30T06:11:52+01:00"},
		{"2026-11-30 06:11:52.000000", "../../etc/passwd", ""},
		{"yesterday", "UTC", ""},
	} {
		if got := phpTime(test.date, test.zone); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.date, test.zone, got, test.want)
		}
	}
}
