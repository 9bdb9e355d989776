// Package outgoing sets the properties of outgoing messages that link them with the message
// whose handler returned them.
package outgoing

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// ID returns the message id of the n-th outgoing message, from 0, that the handler of a queue
// returns for the message with a fingerprint, in a replay or in none (""). It is the same each
// time the handler repeats.
func ID(fingerprint, queue string, n int, replay string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%s", fingerprint, queue, n, replay))
	return hex.EncodeToString(sum[:16])
}

// SetCorrelation sets the correlation id and the header of the causation, unless the handler has set them. A
// causation that was copied from the parent names the parent's own cause.
func SetCorrelation(e *schemas.Envelope, parent wire.VerifiedState, header string) {
	p := parent.Envelope.Properties
	if e.Properties.CorrelationID == "" {
		e.Properties.CorrelationID = p.CorrelationID
	}
	if e.Properties.CorrelationID == "" {
		e.Properties.CorrelationID = p.MessageID
	}
	said, set := e.Headers[header].(string)
	of, copied := parent.Envelope.Headers[header].(string)
	if set && !(copied && said == of) {
		return
	}
	e.Headers[header] = parent.State.Fingerprint
	if p.MessageID != "" {
		e.Headers[header] = p.MessageID
	}
}
