package call

import (
	"bytes"
	"encoding/binary"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func frame(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// TestINP01_FramesAreBoundedBeforeTheyAreRead: a size that is too large is refused by its
// four bytes alone.
func TestINP01_FramesAreBoundedBeforeTheyAreRead(t *testing.T) {
	r := &counted{r: strings.NewReader("\xff\xff\xff\xff" + strings.Repeat("x", 1<<20))}
	if _, err := ReadRequest(r); err == nil || r.n != 4 {
		t.Errorf("%d bytes were read, %v", r.n, err)
	}
	const good = `{"argv":["a"],"time":1000000}`
	if got, err := ReadRequest(strings.NewReader(frame(good))); err != nil || got.Argv[0] != "a" || got.Time != time.Millisecond {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"nothing":           "",
		"half a size":       "\x00\x00",
		"half a frame":      frame(good)[:20],
		"an unknown field":  frame(`{"argv":["a"],"time":1,"shell":true}`),
		"two values":        frame(good + good),
		"no program":        frame(`{"argv":[],"time":1}`),
		"an empty program":  frame(`{"argv":[""],"time":1}`),
		"a zero byte":       frame(`{"argv":["a\u0000"],"time":1}`),
		"no time":           frame(`{"argv":["a"]}`),
		"too much time":     frame(`{"argv":["a"],"time":172800000000001}`),
		"another's env":     frame(`{"argv":["a"],"time":1,"env":["LD_PRELOAD=/x"]}`),
		"env without value": frame(`{"argv":["a"],"time":1,"env":["CADRE_X"]}`),
		"too many words":    frame(`{"argv":["a"` + strings.Repeat(`,"a"`, MaxWords) + `],"time":1}`),
		"a long word":       frame(`{"argv":["` + strings.Repeat("a", MaxWord+1) + `"],"time":1}`),
		"many bytes":        frame(`{"argv":["a"` + strings.Repeat(`,"`+strings.Repeat("a", MaxWord)+`"`, 5) + `],"time":1}`),
	} {
		if got, err := ReadRequest(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTheLargestFramesFit: a frame within the bounds is never rejected for its size.
func TestTheLargestFramesFit(t *testing.T) {
	word := strings.Repeat("\x01", MaxBytes/8)
	req := Request{Time: MaxTime}
	for range 8 {
		req.Argv = append(req.Argv, word)
	}
	for range 7 {
		req.Env = append(req.Env, "CADRE_X="+word[8:])
	}
	var b bytes.Buffer
	if err := writeFrame(&b, req); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRequest(&b); err != nil {
		t.Errorf("request: %v", err)
	}
	var reply Reply
	_ = WriteReply(&b, Reply{Output: make([]byte, OutputLimit), Reason: strings.Repeat("\x01", ReasonLimit)})
	if err := readFrame(&b, &reply); err != nil || len(reply.Output) != OutputLimit {
		t.Errorf("reply: %v", err)
	}
}

type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// FuzzINP09_ReadRequest: every request read is valid, or an error.
func FuzzINP09_ReadRequest(f *testing.F) {
	f.Add([]byte(frame(`{"argv":["a"],"time":1000000}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		req, err := ReadRequest(bytes.NewReader(data))
		if err == nil && req.Check() != nil {
			t.Errorf("%+v is taken", req)
		}
	})
}

// FuzzHK08_CleanReason: one printable line of bounded length, for any input.
func FuzzHK08_CleanReason(f *testing.F) {
	f.Add("a\x1b[31m\nb")
	f.Fuzz(func(t *testing.T, text string) {
		got := CleanReason(text)
		if len(got) > ReasonLimit || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Errorf("%q", got)
		}
		if again := CleanReason(got); again != got {
			t.Errorf("%q, then %q", got, again)
		}
	})
}
