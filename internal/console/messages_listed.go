package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/internal/render/indent"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

// listedRow is a message of the list.
type listedRow struct {
	messages.Listed
	URL     string
	Summary string // of its error
	Cells   []messageCell
	IsOpen  bool // its preview follows
}

// usualListed is the number of columns that each list of messages has.
const usualListed = 6

// listMessages reads the rows of messages, one of which may be opened.
func (c searchPages) listMessages(ctx context.Context, m *messageList, previewed string) error {
	fields := make([]string, len(m.Columns))
	for i, column := range m.Columns {
		fields[i] = column.Name
	}
	m.Span = len(m.Columns) + usualListed
	page, err := messages.ListMessages.Call(ctx, c.api, messages.ListInput{QueryFilter: m.Filter.API(), Fields: fields, Limit: messageRows, Cursor: m.Cursor})
	if err != nil {
		return err
	}
	m.Older, m.Skipped = page.Body.Cursor, page.Body.Unreadable
	for _, listed := range page.Body.Messages {
		row := listedRow{Listed: listed, URL: frame.MessageURL(listed.Fingerprint), IsOpen: listed.Fingerprint == previewed}
		if id := listed.MessageID; id != "" && frame.NamesPage(id) {
			row.URL = frame.MessageURL(id)
		}
		line, _ := firstLine(listed.Error)
		row.Summary = wording.OneLine(line)
		for _, column := range m.Columns {
			row.Cells = append(row.Cells, newListedCell(listed, column))
		}
		m.Messages = append(m.Messages, row)
	}
	return nil
}

func newListedCell(listed messages.Listed, column columns.Column) messageCell {
	text, _ := listed.Values[column.Name].(string)
	if value, found := listed.Values[column.Name]; found && text == "" {
		marshalled, _ := json.Marshal(value) // it came from JSON
		text = string(marshalled)
	}
	cell := messageCell{Kind: column.Kind, Text: wording.OneLine(text)}
	if column.Kind == columns.Time {
		cell.Time, _ = time.Parse(time.RFC3339, text)
	}
	return cell
}

// preview is a message below its row.
type preview struct {
	Fingerprint string
	Problem     *problem.Problem
	Life        []lifeStep
	Error       string
	Body        string // its beginning
	BodyIsWhole bool
	HasBody     bool
}

// URLUnlisted returns the page of the message if it has no row in the list, as on a busy system, else "".
func (p *preview) URLUnlisted(list []listedRow) string {
	if slices.ContainsFunc(list, func(row listedRow) bool { return row.IsOpen }) {
		return ""
	}
	return frame.MessageURL(p.Fingerprint)
}

// maxPreview bounds the text of a body, and previewSteps the events, which a preview shows.
const (
	maxPreview   = 4 << 10 // bytes
	previewSteps = 8
)

// preview reads a message for the list; nil without a fingerprint.
func (c searchPages) preview(r *http.Request, fingerprint string) *preview {
	if fingerprint == "" {
		return nil
	}
	p := &preview{Fingerprint: fingerprint}
	mayRead := mayRead(r) && r.Header.Get(frame.RefreshHeader) == ""
	answer, err := messages.GetMessages.Call(r.Context(), c.api, messages.MessagesInput{ID: fingerprint, WithBody: mayRead})
	if err == nil {
		err = p.read(answer.Body.Messages[0], mayRead)
	}
	if err != nil {
		p.Problem = frame.ProblemOf(err)
	}
	return p
}

func (p *preview) read(m messages.Message, mayRead bool) error {
	steps, err := lifeOf(m.History)
	if err != nil {
		return err
	}
	whole, err := schemas.ParseDocument(m.Event)
	if err != nil {
		return fmt.Errorf("reading message %q: %w", p.Fingerprint, err)
	}
	for _, step := range steps {
		if step.IsFailure() {
			p.Error = step.Failure.Message
		}
	}
	p.Life = steps[max(0, len(steps)-previewSteps):]
	if p.HasBody = mayRead && whole.BodyIn == schemas.BodyHere; !p.HasBody {
		return nil
	}
	if text, isText := whole.Envelope.BodyText(); isText {
		p.Body, p.BodyIsWhole = indent.Text(text, maxPreview)
	} else {
		p.HasBody = false
	}
	return nil
}
