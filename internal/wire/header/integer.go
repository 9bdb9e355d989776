package header

// Integer returns the value of a header of any integer type of AMQP, and 0 for another value.
func Integer(value any) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case int16:
		return int64(v)
	case int8:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case int: // the client writes it as a 32-bit integer
		return int64(int32(v))
	}
	return 0
}
