package amqpstream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/iotest"
)

// scripted is a stream with fixed input that records its output.
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
	return methodFrame(classConnection, method, append(arguments, 0, 60)...)
}

func TestFrameMaxIsRaisedForTheClientOnly(t *testing.T) {
	for proposed, seen := range map[uint32]uint32{131072: largeFrameMax, 0: 0, largeFrameMax: largeFrameMax, 1 << 30: 1 << 30} {
		start := methodFrame(classConnection, 10, []byte("start")...)
		later := tune(methodTune, 4096) // after the handshake: must pass unchanged
		in := bytes.Join([][]byte{start, tune(methodTune, proposed), later}, nil)
		stream := &scripted{in: iotest.OneByteReader(bytes.NewReader(in))}
		c := New(stream, true)
		got, err := io.ReadAll(c)
		want := bytes.Join([][]byte{start, tune(methodTune, seen), later}, nil)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("proposed %d: read %v, %v", proposed, got, err)
		}
		for range 2 { // the second is after the handshake
			if _, err := c.Write(tune(methodTuneOK, seen)); err != nil {
				t.Fatal(err)
			}
		}
		if want := append(tune(methodTuneOK, proposed), tune(methodTuneOK, seen)...); !bytes.Equal(stream.out.Bytes(), want) {
			t.Errorf("proposed %d: wrote %v", proposed, stream.out.Bytes())
		}
	}
}

// FuzzConn checks that the client reads as many bytes as were sent, and all of
// them unchanged except the frame-max of a tune and unreadable headers in a content
// header.
func FuzzConn(f *testing.F) {
	f.Add(tune(methodTune, 131072))
	f.Add([]byte("AMQP\x00\x00\x09\x01"))
	f.Add(append(methodFrame(classConnection, 10, 1, 2, 3), tune(methodTune, 4096)...))
	f.Add([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0})
	f.Add([]byte{1, 0, 0})
	f.Add(append(contentFrame(deep(3)), methodFrame(60, 60)...))
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.ContainsRune(in, frameContent) {
			t.Skip() // FuzzStash covers these
		}
		c := New(&scripted{in: iotest.HalfReader(bytes.NewReader(in))}, true)
		got, err := io.ReadAll(c)
		if err != nil || len(got) != len(in) {
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

// TestFramesArePassedInPieces splits the stream at every offset and checks that
// only unreadable headers are replaced on receipt and restored on sending.
func TestFramesArePassedInPieces(t *testing.T) {
	body := append([]byte{frameBody, 0, 1, 0, 0, 0, 5}, "hello\xce"...)
	plain, unfit := contentFrame(deep(2)), contentFrame(deep(40))
	start := append(methodFrame(classConnection, 10), tune(methodTune, 0)...)
	in := bytes.Join([][]byte{start, plain, body, unfit, body, plain, unfit[:30]}, nil)
	want := bytes.Join([][]byte{start, plain, body, stash(unfit), body, plain, unfit[:30]}, nil)
	for name, reader := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader,
		"halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
	} {
		got, err := io.ReadAll(New(&scripted{in: reader(bytes.NewReader(in))}, false))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
	written := bytes.Join([][]byte{plain, body, stash(unfit), body, stash(unfit), plain}, nil)
	sent := bytes.Join([][]byte{plain, body, unfit, body, unfit, plain}, nil)
	for size := 1; size <= len(written); size++ {
		stream := &scripted{}
		c := New(stream, false)
		answer := tune(methodTuneOK, 0)
		for _, piece := range append([][]byte{answer}, slices.Collect(slices.Chunk(written, size))...) {
			if n, err := c.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if !bytes.Equal(stream.out.Bytes(), append(answer, sent...)) {
			t.Fatalf("in pieces of %d: wrote %q", size, stream.out.Bytes())
		}
	}
}

// BenchmarkRead measures the cost of inspecting frames when the client reads a
// message of 1 KiB with eight headers from a stream in memory.
func BenchmarkRead(b *testing.B) {
	const messages = 100
	var headers []string
	for i := range 8 {
		headers = append(headers, fmt.Sprintf("header-%d", i), ofLength('S', []byte("a value of ordinary length")))
	}
	one := bytes.Join([][]byte{
		methodFrame(60, 60, make([]byte, 60)...), contentFrame(wireTable(headers...)),
		{frameBody, 0, 1, 0, 0, 4, 0},
		make([]byte, 1024),
		{0xCE},
	}, nil)
	in := bytes.Repeat(one, messages)
	for name, wrap := range map[string]func(net.Conn) io.Reader{
		"bare": func(c net.Conn) io.Reader { return c },
		"conn": func(c net.Conn) io.Reader { return New(c, true) },
	} {
		b.Run(name, func(b *testing.B) {
			source := bytes.NewReader(nil)
			from := bufio.NewReader(wrap(&scripted{in: source}))
			for b.Loop() {
				source.Reset(in)
				if _, err := io.CopyN(io.Discard, struct{ io.Reader }{from}, int64(len(in))); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*messages), "ns/message")
		})
	}
}
