package sqlite

import "strconv"

// A word of the table term is the id of a key, in hexadecimal digits, and a value:
//
//	1f=order.created

// keyBeginning is the beginning of the words of a key.
func keyBeginning(key int64) string { return strconv.FormatInt(key, 16) + "=" }

// keyBeginningSQL is keyBeginning of the column id. The words of a key end before those
// that would begin with the id and the character after the equals sign.
const keyBeginningSQL = "printf('%x=', id)"
