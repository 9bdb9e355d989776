package access

import (
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"github.com/watershipmq/watership/internal/operation/code"
)

// problem is the body of a refusal (RFC 9457).
type problem struct {
	Type   string    `json:"type"`
	Title  string    `json:"title"`
	Code   code.Code `json:"code"`
	Status int       `json:"status"`
	Detail string    `json:"detail"`
	Remedy string    `json:"remedy,omitempty"`
}

// refuse writes the response to a refused request: a page if a browser shows it, else
// a problem.
func refuse(w http.ResponseWriter, r *http.Request, err error, signIn signInPage) {
	var refusal *Error
	p := problem{Status: statusOf(err), Code: code.Internal, Detail: err.Error()}
	if errors.As(err, &refusal) {
		p.Code, p.Remedy = refusal.Code, refusal.Remedy
		if refusal.After > 0 {
			w.Header().Set("Retry-After", retryAfter(refusal.After))
		}
	}
	p.Title = http.StatusText(p.Status)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="watership"`)
	}
	if wantsPage(r) {
		if isMissing(err) {
			p.Title, p.Detail, p.Remedy = "Sign in to Watership", signIn.help(), ""
		}
		writePage(w, p, signIn)
		return
	}
	writeProblem(w, p)
}

func writeProblem(w http.ResponseWriter, p problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	p.Type = "about:blank"
	_ = json.NewEncoder(w).Encode(p)
}

// wantsPage reports whether a browser shows the response as a page, after a link or a
// form.
func wantsPage(r *http.Request) bool {
	form := strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
	return (isSafe(r.Method) || form) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// signInPage has the offers of the page of a refusal.
type signInPage struct {
	Provider bool // a link to sign in
	Token    bool // a form for a token
	Return   string
	Style    string // URL of a style sheet; "": none
}

// help describes how to sign in.
func (s signInPage) help() string {
	if s.Provider && !s.Token {
		return "Sign in with the identity provider of your organization."
	}
	return "Enter a token. An administrator creates one with: watership token create NAME"
}

const pageText = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{{.Title}} · Watership</title>
{{- with .SignIn.Style}}<link rel="stylesheet" href="{{.}}">{{end}}</head>
<body class="sign-in">
<main class="card">
<h1>{{.Title}}</h1>
<p>{{.Detail}}</p>
{{with .Remedy}}<p>{{.}}</p>{{end}}
{{if .SignIn.Provider}}<p><a class="button main" href="/auth/login?return={{.SignIn.Return}}">Sign in</a></p>{{end}}
{{if .SignIn.Token}}<form method="post" action="/auth/token">
<input type="hidden" name="return" value="{{.SignIn.Return}}">
<label class="field"><span>Token</span><input type="password" name="token" autocomplete="off" required></label>
<button{{if not .SignIn.Provider}} class="main"{{end}}>Sign in</button>
</form>{{end}}
</main>
</body>
</html>
`

func writePage(w http.ResponseWriter, p problem, signIn signInPage) {
	page, err := template.New("refusal").Parse(pageText)
	if err != nil {
		panic("access: " + err.Error())
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(p.Status)
	_ = page.Execute(w, struct {
		problem
		SignIn signInPage
	}{p, signIn})
}
