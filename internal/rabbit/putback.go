package rabbit

// putBack reverses setAside: it returns the frame with the original headers, nil
// for a frame without UnreadableHeaders. A header set since then takes precedence
// over the original.
func putBack(frame []byte) []byte {
	start, end, ok := headersOf(frame)
	if !ok {
		return nil
	}
	table := frame[start:end]
	for at := 0; at < len(table); {
		kind := kindAt(table, at)
		content, next := valueAt(table, kind)
		if next < 0 {
			break
		}
		if table[kind] == 'x' && string(table[at+1:kind]) == UnreadableHeaders {
			return withHeaders(frame, start, end, join(table, table[content:next]))
		}
		at = next
	}
	return nil
}

// join returns table without UnreadableHeaders and with the headers from aside. It
// drops obeyed headers from aside, since any publisher can send a header named
// UnreadableHeaders.
func join(table, aside []byte) []byte {
	joined := make([]byte, 0, len(table)+len(aside))
	there := map[string]bool{}
	eachEntry(table, func(e entry) {
		if string(e.name) != UnreadableHeaders {
			there[string(e.name)] = true
			joined = append(joined, e.whole...)
		}
	})
	end := eachEntry(aside, func(e entry) {
		if !there[string(e.name)] && !obeyed(e.name) {
			joined = append(joined, e.whole...)
		}
	})
	return append(joined, unsplit(end)...)
}

// checkUnreadable refuses a value that would be encoded as a malformed table. An
// unknown field type passes: only a broker that supports it can have sent it.
func checkUnreadable(value any) *refusal {
	const what = "header " + UnreadableHeaders + " "
	table, ok := value.([]byte)
	if !ok {
		return &refusal{codeSyntax, what + "is no byte array; the name is reserved for headers that cannot be read"}
	}
	all := container{rest: table, named: true}
	for len(all.rest) > 0 {
		kind, content, v := all.next()
		if v == readable {
			v = judge(kind, content, len(table), len(table))
		}
		switch v {
		case strange:
			return nil
		case broken:
			return &refusal{codeSyntax, what + "holds no table of headers"}
		}
	}
	return nil
}
