package rabbit

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/iotest"
)

// scripted is a stream that reads what it is given and keeps what is written.
type scripted struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (s *scripted) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *scripted) Write(p []byte) (int, error) { return s.out.Write(p) }

func methodFrame(class, method uint16, arguments ...byte) []byte {
	frame := []byte{frameMethod, 0, 0}
	frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(arguments)))
	frame = binary.BigEndian.AppendUint16(frame, class)
	frame = binary.BigEndian.AppendUint16(frame, method)
	return append(append(frame, arguments...), 0xCE)
}

func tune(method uint16, frameMax uint32) []byte {
	arguments := binary.BigEndian.AppendUint32([]byte{7, 255}, frameMax)
	return methodFrame(classConn, method, append(arguments, 0, 60)...)
}

func TestFrameMaxIsRaisedForTheClientOnly(t *testing.T) {
	for proposed, seen := range map[uint32]uint32{131072: largeFrameMax, 0: 0, largeFrameMax: largeFrameMax, 1 << 30: 1 << 30} {
		start := methodFrame(classConn, 10, []byte("start")...)
		later := tune(methodTune, 4096) // no handshake any more: must pass unchanged
		in := bytes.Join([][]byte{start, tune(methodTune, proposed), later}, nil)
		stream := &scripted{in: iotest.OneByteReader(bytes.NewReader(in))}
		c := &largeFrames{Conn: stream}
		got, err := io.ReadAll(c)
		want := bytes.Join([][]byte{start, tune(methodTune, seen), later}, nil)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("proposed %d: read %v, %v", proposed, got, err)
		}
		for range 2 { // the second is no handshake any more
			if _, err := c.Write(tune(methodTuneOK, seen)); err != nil {
				t.Fatal(err)
			}
		}
		if want := append(tune(methodTuneOK, proposed), tune(methodTuneOK, seen)...); !bytes.Equal(stream.out.Bytes(), want) {
			t.Errorf("proposed %d: wrote %v", proposed, stream.out.Bytes())
		}
	}
}

// FuzzLargeFrames: whatever comes, the client reads as many bytes as were sent,
// and all of them but the frame-max of a tune unchanged.
func FuzzLargeFrames(f *testing.F) {
	f.Add(tune(methodTune, 131072))
	f.Add([]byte("AMQP\x00\x00\x09\x01"))
	f.Add(append(methodFrame(classConn, 10, 1, 2, 3), tune(methodTune, 4096)...))
	f.Add([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0})
	f.Add([]byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		c := &largeFrames{Conn: &scripted{in: iotest.HalfReader(bytes.NewReader(in))}}
		got, err := io.ReadAll(c)
		if err != nil && err != io.ErrUnexpectedEOF || len(got) != len(in) {
			t.Fatalf("read %d of %d bytes: %v", len(got), len(in), err)
		}
		different := 0
		for i := range in {
			if got[i] != in[i] {
				different++
			}
		}
		if different > 4 {
			t.Fatalf("%d bytes changed", different)
		}
	})
}
