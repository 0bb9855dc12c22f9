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
		"nothing":              "",
		"half a size":          "\x00\x00",
		"half a frame":         frame(good)[:20],
		"an unknown field":     frame(`{"argv":["a"],"time":1,"shell":true}`),
		"two values":           frame(good + good),
		"no program":           frame(`{"argv":[],"time":1}`),
		"an empty program":     frame(`{"argv":[""],"time":1}`),
		"a zero byte":          frame(`{"argv":["a\u0000"],"time":1}`),
		"no time":              frame(`{"argv":["a"]}`),
		"too much time":        frame(`{"argv":["a"],"time":172800000000001}`),
		"another's env":        frame(`{"argv":["a"],"time":1,"env":["LD_PRELOAD=/x"]}`),
		"input without answer": frame(`{"argv":["a"],"time":1,"input":"YQ=="}`),
		"a stream's answer":    frame(`{"argv":["a"],"time":1,"stream":true,"answer":true}`),
		"a restart's answer":   frame(`{"restart":true,"time":1,"answer":true}`),
		"much input":           frame(`{"argv":["a"],"time":1,"answer":true,"input":"` + strings.Repeat("A", InputLimit/3*4+8) + `"}`),
		"env without value":    frame(`{"argv":["a"],"time":1,"env":["CADRE_X"]}`),
		"too many words":       frame(`{"argv":["a"` + strings.Repeat(`,"a"`, MaxWords) + `],"time":1}`),
		"a long word":          frame(`{"argv":["` + strings.Repeat("a", MaxWord+1) + `"],"time":1}`),
		"many bytes":           frame(`{"argv":["a"` + strings.Repeat(`,"`+strings.Repeat("a", MaxWord)+`"`, 5) + `],"time":1}`),
	} {
		if got, err := ReadRequest(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTheLargestFramesFit: a frame within the bounds is never rejected for its size.
func TestTheLargestFramesFit(t *testing.T) {
	word := strings.Repeat("\x01", MaxBytes/8)
	req := Request{Time: MaxTime, Answer: true, Input: make([]byte, InputLimit)}
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
	_ = WriteReply(&b, Reply{Output: make([]byte, OutputLimit), Answer: make([]byte, AnswerLimit+1), Reason: strings.Repeat("\x01", ReasonLimit)})
	if err := readFrame(&b, &reply); err != nil || len(reply.Output) != OutputLimit {
		t.Errorf("reply: %v", err)
	}
}

// TestAnEarlierServiceTakesTheOtherRequests: without an answer a request has only the fields that it
// always had. With one, the refusal of an earlier service differs from other faults.
func TestAnEarlierServiceTakesTheOtherRequests(t *testing.T) {
	var b bytes.Buffer
	if err := writeFrame(&b, Request{Argv: []string{"a"}, Env: []string{"CADRE_X=1"}, Time: 1}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), frame(`{"argv":["a"],"env":["CADRE_X=1"],"time":1}`); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	type earlier struct {
		Argv []string      `json:"argv"`
		Time time.Duration `json:"time"`
	}
	b.Reset()
	if err := writeFrame(&b, Request{Argv: []string{"a"}, Time: 1, Answer: true}); err != nil {
		t.Fatal(err)
	}
	err := readFrame(&b, &earlier{})
	if err == nil || !(Reply{End: NotStarted, Problem: err.Error()}).Unanswerable() {
		t.Errorf("an earlier service answers %v", err)
	}
	if (Reply{End: NotStarted, Problem: "start it: no such file"}).Unanswerable() || (Reply{End: Exited}).Unanswerable() {
		t.Error("another fault is taken for an earlier service")
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
