package broker

import "strings"

// headersMatcher compares the headers of a message with the arguments of the binding
// (§3.1.3.4; https://www.rabbitmq.com/docs/exchanges#headers).
type headersMatcher struct{ all bindingList }

func (h *headersMatcher) add(b *binding) {
	b.headers = newHeaderPattern(b.args)
	h.all.add(b)
}

func (h *headersMatcher) remove(b *binding) { h.all.remove(b) }

func (h *headersMatcher) match(_ string, m *message, visit func(*binding)) {
	if len(h.all) == 0 {
		return
	}
	headers := map[string]field{}
	for name, f := range m.headers().fields() {
		headers[name] = f
	}
	for _, b := range h.all {
		if b.headers.matches(headers) {
			visit(b)
		}
	}
}

// headerPattern is the parsed arguments of a binding to a headers exchange.
type headerPattern struct {
	any  bool
	want map[string]field
}

func newHeaderPattern(args table) headerPattern {
	how := "all"
	if f, there := args.lookup("x-match"); there {
		how, _ = f.text()
	}
	p := headerPattern{any: strings.HasPrefix(how, "any"), want: map[string]field{}}
	for name, f := range args.fields() {
		if name == "x-match" || strings.HasPrefix(name, "x-") && !strings.HasSuffix(how, "-with-x") {
			continue
		}
		p.want[name] = f
	}
	return p
}

// validHeaderArguments returns the error of RabbitMQ for an unknown x-match.
func validHeaderArguments(args table) *exception {
	f, there := args.lookup("x-match")
	if !there {
		return nil
	}
	how, isText := f.text()
	if !isText {
		return newException(preconditionFailed, "Invalid x-match field type %s (value %v); expected longstr", f.typeName(), f)
	}
	switch how {
	case "all", "any", "all-with-x", "any-with-x":
		return nil
	}
	return newException(preconditionFailed,
		"Invalid x-match field value <<%q>>; expected all, any, all-with-x, or any-with-x", how)
}

func (p headerPattern) matches(headers map[string]field) bool {
	for name, want := range p.want {
		have, there := headers[name]
		fits := there && (want.kind == 'V' || want.equal(have))
		if fits == p.any {
			return fits
		}
	}
	return !p.any
}
