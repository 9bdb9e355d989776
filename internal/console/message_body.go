package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/jsontree"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/indent"
	"github.com/watershipmq/watership/schemas"
)

// bodyView is the body of a message in one of several views.
type bodyView struct {
	Place   schemas.BodyPlace // where it is, if not in the store
	MayRead bool
	Unread  bool // since each access is recorded, a refresh of the page reads none
	Problem *problem.Problem

	Views          []bodyTab
	View           string
	Tree           jsontree.Node
	Text           string
	IsWhole        bool // else the text is the beginning
	Hex            []hexLine
	From, To, Size int    // bytes of Hex
	Before, Next   string // pages of Hex
	Image          string // URL
	Copy           string // the text, if it is short enough to be copied; "": it is not
}

type bodyTab struct {
	Name, Title, URL string
	Current          bool
}

// body reads the body of a message and shows it as the parameter of the same name says.
func (c messagePages) body(r *http.Request, e schemas.Event) bodyView {
	b := bodyView{Place: e.BodyIn, MayRead: mayRead(r), Unread: r.Header.Get(frame.RefreshHeader) != "", Size: e.BodySize}
	if b.Place != schemas.BodyHere || !b.MayRead || b.Unread {
		return b
	}
	body, err := c.readBody(r, messageID(e))
	if err != nil {
		b.Problem = frame.ProblemOf(err)
		return b
	}
	b.Size = len(body)
	b.show(r, e, body)
	return b
}

// readBody reads the body of a message with an id.
func (c messagePages) readBody(r *http.Request, id string) ([]byte, error) {
	found, err := messages.GetBody.Call(r.Context(), c.api, messages.BodyInput{ID: id})
	return found.Body, err
}

// Bounds of the views.
const (
	maxBodyText  = 256 << 10 // bytes
	hexWindow    = 4 << 10   // bytes
	hexWidth     = 16        // bytes
	maxTreeNodes = 2000
	maxTreeDepth = 32
	maxCopied    = 32 << 10 // bytes, which the page has a second time
)

func (b *bodyView) show(r *http.Request, e schemas.Event, body []byte) {
	text, isText := schemas.Envelope{Properties: e.Envelope.Properties, Body: body}.BodyText()
	if isText = isText && !slices.Contains(text, 0); !isText {
		text = body
	}
	if isText && len(text) <= maxCopied {
		b.Copy = string(text)
	}
	tree, isJSON := jsontree.Parse(text, jsontree.Limits{Nodes: maxTreeNodes, Depth: maxTreeDepth})
	views := []bodyTab{{Name: "tree", Title: "JSON"}, {Name: "image", Title: "Image"}, {Name: "text", Title: "Text"}, {Name: "hex", Title: "Hex"}}
	possible := map[string]bool{"tree": isJSON, "image": imageType(body) != "", "text": true, "hex": true}
	views = slices.DeleteFunc(views, func(v bodyTab) bool { return !possible[v.Name] })
	b.View = r.URL.Query().Get("body")
	switch {
	case possible[b.View]:
	case !isText && !possible["image"]:
		b.View = "hex"
	default:
		b.View = views[0].Name
	}
	for _, v := range views {
		v.URL, v.Current = bodyURL(r, url.Values{"body": {v.Name}}), v.Name == b.View
		b.Views = append(b.Views, v)
	}
	switch b.View {
	case "tree":
		b.Tree = tree
	case "image":
		b.Image = messagePath(e) + "/image"
	case "text":
		b.Text, b.IsWhole = indent.Text(text, maxBodyText)
	case "hex":
		b.showHex(r, body)
	}
}

// bodyURL returns the URL of a request with other parameters.
func bodyURL(r *http.Request, change url.Values) string {
	query := r.URL.Query()
	query.Del("at")
	for name, values := range change {
		query[name] = values
	}
	return r.URL.EscapedPath() + "?" + query.Encode() + "#body"
}

// hexLine has up to 16 bytes.
type hexLine struct{ Offset, Bytes, ASCII string }

// showHex shows the bytes from the parameter at on.
func (b *bodyView) showHex(r *http.Request, body []byte) {
	at, err := strconv.Atoi(r.URL.Query().Get("at"))
	if err != nil || at < 0 || at >= len(body) {
		at = 0
	}
	b.From = at - at%hexWidth
	b.To = min(b.From+hexWindow, len(body))
	for from := b.From; from < b.To; from += hexWidth {
		line := body[from:min(from+hexWidth, b.To)]
		ascii := strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '.'
			}
			return r
		}, latin1(line))
		b.Hex = append(b.Hex, hexLine{fmt.Sprintf("%08x", from), fmt.Sprintf("% x", line), ascii})
	}
	window := func(at int) string { return bodyURL(r, url.Values{"body": {"hex"}, "at": {strconv.Itoa(at)}}) }
	if b.From > 0 {
		b.Before = window(max(0, b.From-hexWindow))
	}
	if b.To < len(body) {
		b.Next = window(b.To)
	}
}

// latin1 returns a text with a character for each byte.
func latin1(line []byte) string {
	runes := make([]rune, len(line))
	for i, b := range line {
		runes[i] = rune(b)
	}
	return string(runes)
}

// imageType returns the media type of a body that begins as an image does which browsers
// decode without running anything; "" for any other body, such as SVG.
func imageType(body []byte) string {
	switch kind := http.DetectContentType(body); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return kind
	}
	return ""
}

// messageImage serves a body that is an image.
func (c messagePages) messageImage(r *http.Request) (frame.Response, error) {
	body, err := c.readBody(r, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	kind := imageType(body)
	if kind == "" {
		return nil, &problem.Problem{Code: code.UnsupportedMedia, Detail: "the body is no PNG, JPEG, GIF or WebP", Remedy: "Download it from the page of the message."}
	}
	return imageResponse{kind, body}, nil
}

// imageResponse is the response with an image.
type imageResponse struct {
	kind string
	body []byte
}

// Write implements frame.Response.
func (i imageResponse) Write(_ *frame.Frame, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", i.kind)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.Itoa(len(i.body)))
	_, _ = w.Write(i.body)
}
