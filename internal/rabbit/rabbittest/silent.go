package rabbittest

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
)

// SilentLeader stops the leader of a quorum queue of RabbitMQ, in the default virtual host,
// until resume is called or the test ends. RabbitMQ then answers a passive declaration with no
// messages and no consumers, after 250 ms.
func (b Broker) SilentLeader(t testing.TB, queue string) (resume func()) {
	t.Helper()
	NeedServices(t)
	const leader = `{ok,Q}=rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>,queue,<<"%s">>)),{Leader,_}=amqqueue:get_pid(Q),sys:%s(Leader).`
	resume = sync.OnceFunc(func() { b.Service(t, "ctl", "eval", fmt.Sprintf(leader, queue, "resume")) })
	t.Cleanup(resume)
	b.Service(t, "ctl", "eval", fmt.Sprintf(leader, queue, "suspend"))
	return resume
}

// SilentQueues starts a proxy for the broker that answers declarations of some queues as
// RabbitMQ does for a quorum queue with a silent leader: with no messages and no consumers. It
// calls isSilent for each answer, one at a time. It returns the broker's URL through the proxy, which stops
// when the test ends.
func (a Address) SilentQueues(t testing.TB, isSilent func(queue string) bool) (url string) {
	t.Helper()
	var asking sync.Mutex                // held while isSilent runs
	const declareOK = "\x00\x32\x00\x0b" // class 50, method 11: queue, message count, consumer count
	return a.Rewrite(t, func(frame []byte) []byte {
		if frame[0] != methodFrame || string(frame[frameStart:frameStart+4]) != declareOK {
			return frame
		}
		name := frame[frameStart+5 : frameStart+5+int(frame[frameStart+4])]
		asking.Lock()
		defer asking.Unlock()
		if isSilent(string(name)) {
			counts := frame[frameStart+5+len(name):]
			binary.BigEndian.PutUint64(counts, 0)
		}
		return frame
	})
}
