package frame

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// doneParameter has the result of a form, for the next page. It is signed, so that no link can
// claim that something was done.
const doneParameter = "done"

// doneFor is how long the next page shows it: a user may open the address again.
const doneFor = time.Minute

// Done sends the browser to another page, which shows the result of a form. path may have a
// query.
func (f *Frame) Done(path string, values url.Values) Redirect {
	target, err := url.Parse(path)
	if err != nil {
		return Redirect(path)
	}
	values.Set("at", strconv.FormatInt(time.Now().UnixMilli(), 10))
	text := values.Encode()
	query := target.Query()
	query.Set(doneParameter, base64.RawURLEncoding.EncodeToString([]byte(text))+"."+f.signDone(target.Path, text))
	target.RawQuery = query.Encode()
	return Redirect(target.String())
}

// DoneBefore returns the result that Done sent, and its time; nil and zero if there is nothing, or it is of
// another page, another process or a while ago.
func (f *Frame) DoneBefore(r *http.Request) (url.Values, time.Time) {
	encoded, signature, _ := strings.Cut(r.URL.Query().Get(doneParameter), ".")
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || !hmac.Equal([]byte(signature), []byte(f.signDone(r.URL.Path, string(text)))) {
		return nil, time.Time{}
	}
	values, err := url.ParseQuery(string(text))
	millis, _ := strconv.ParseInt(values.Get("at"), 10, 64)
	at := time.UnixMilli(millis)
	if err != nil || time.Since(at) > doneFor {
		return nil, time.Time{}
	}
	return values, at
}

func (f *Frame) signDone(path, text string) string {
	sum := hmac.New(sha256.New, f.doneKey)
	sum.Write([]byte(path + "\n" + text))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}
