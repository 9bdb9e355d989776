package rabbit

// putBack undoes setAside; nil where there is nothing to undo. A header that was
// set since goes before the one set aside.
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

// join leaves out of aside the headers that are obeyed: a publisher, too, can send a
// header with the name of those set aside.
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

// checkUnreadable refuses what would go out as a broken table. A type that nobody
// here knows passes: only a broker that knows it can have sent it.
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
