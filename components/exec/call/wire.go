package call

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Bounds of one command.
const (
	// OutputLimit is how many bytes of a command's output are kept; the rest is read
	// and dropped.
	OutputLimit = 64 << 10
	// StreamLimit is how many bytes of a command's output Stream passes on; the rest is read and
	// counted.
	StreamLimit = 1 << 20
	// ReasonLimit bounds the reason that a command gives, in bytes.
	ReasonLimit = 256
	// InputLimit bounds the standard input of a command, in bytes.
	InputLimit = 32 << 10
	// AnswerLimit is how many bytes of a command's answer are kept; a longer answer is cut after one
	// byte more.
	AnswerLimit = 64 << 10
	// MaxTime is the longest that a command may be given.
	MaxTime = 48 * time.Hour
	// MaxWords, MaxWord and MaxBytes bound an argument vector: its words, the bytes of one
	// and of all. The environment has the same bounds.
	MaxWords = 64
	MaxWord  = 4096
	MaxBytes = 16 << 10

	// frameLimit has room for each byte being escaped.
	frameLimit = 256 << 10
)

// SocketName is the socket's name in the folder that agent and service share.
const SocketName = "socket"

// Request is one command.
type Request struct {
	// Argv is the program and its arguments; no shell reads it.
	Argv []string `json:"argv"`
	// Env are CADRE_NAME=value, in addition to the environment of the service.
	Env []string `json:"env,omitempty"`
	// Time is when the command is killed, counted from its start; of a restart: when the
	// workload is killed, counted from the signal that asks it to end.
	Time time.Duration `json:"time"`
	// Restart requests an end and a new start of the workload; there is no command then.
	Restart bool `json:"restart,omitempty"`
	// Stream requests the output while the command runs: Replies with Output and without End, and
	// then the last one, whose Output is empty.
	Stream bool `json:"stream,omitempty"`
	// Answer gives the command the descriptor that CADRE_ANSWER_FD names, for Reply.Answer, and Input
	// as its standard input. A service of an earlier version refuses such a request: see Unanswerable.
	Answer bool   `json:"answer,omitempty"`
	Input  []byte `json:"input,omitempty"`
}

// End is how a command ended.
type End string

const (
	// Exited: the command exited with Code.
	Exited End = "exited"
	// Signalled: by a signal, which is Code.
	Signalled End = "signalled"
	// TimedOut: killed, since its time was up or the caller was gone.
	TimedOut End = "timed-out"
	// NotStarted: Problem has the reason.
	NotStarted End = "not-started"
)

// Reply is how a command ended.
type Reply struct {
	End  End `json:"end"`
	Code int `json:"code"`
	// Problem is why no command was started.
	Problem string `json:"problem,omitempty"`
	// Reason is one printable line of at most ReasonLimit bytes, which the command wrote to
	// the descriptor that CADRE_REASON_FD names. It may be shown to people.
	Reason string `json:"reason,omitempty"`
	// Answer is the text that the command wrote to the descriptor that CADRE_ANSWER_FD names.
	Answer []byte `json:"answer,omitempty"`
	// Output is the start of the command's output. It may hold secrets.
	Output []byte `json:"output,omitempty"`
	// Dropped is the number of bytes of output above StreamLimit, of a streamed command.
	Dropped uint64 `json:"dropped,omitempty"`
}

// Unanswerable reports that the service runs under an earlier version, which gives no answers. No command was
// started.
func (r Reply) Unanswerable() bool {
	return r.End == NotStarted && strings.Contains(r.Problem, `unknown field "answer"`)
}

// Check returns the fault of a request.
func (r Request) Check() error {
	switch {
	case r.Restart && (len(r.Argv) > 0 || len(r.Env) > 0 || r.Stream || r.Answer):
		return errors.New("restart: must not be combined with a command")
	case r.Answer && r.Stream:
		return errors.New("answer: must not be combined with stream")
	case len(r.Input) > 0 && !r.Answer:
		return errors.New("input: must be combined with answer")
	case len(r.Input) > InputLimit:
		return fmt.Errorf("input: has %d bytes, at most %d are allowed", len(r.Input), InputLimit)
	case r.Restart:
	case len(r.Argv) == 0 || r.Argv[0] == "":
		return errors.New("argv: is empty")
	}
	if err := checkWords("argv", r.Argv); err != nil {
		return err
	}
	if err := checkWords("env", r.Env); err != nil {
		return err
	}
	for i, e := range r.Env {
		if name, _, set := strings.Cut(e, "="); !set || !strings.HasPrefix(name, "CADRE_") {
			return fmt.Errorf("env[%d]: is not CADRE_NAME=value", i)
		}
	}
	if r.Time <= 0 || r.Time > MaxTime {
		return fmt.Errorf("time: is %s, must be more than nothing and at most %s", r.Time, MaxTime)
	}
	return nil
}

func checkWords(field string, words []string) error {
	if len(words) > MaxWords {
		return fmt.Errorf("%s: has %d words, at most %d are allowed", field, len(words), MaxWords)
	}
	total := 0
	for i, w := range words {
		if total += len(w); len(w) > MaxWord || strings.ContainsRune(w, 0) {
			return fmt.Errorf("%s[%d]: is longer than %d bytes or contains a zero byte", field, i, MaxWord)
		}
	}
	if total > MaxBytes {
		return fmt.Errorf("%s: has %d bytes, at most %d are allowed", field, total, MaxBytes)
	}
	return nil
}

// ReadRequest reads and checks one request.
func ReadRequest(r io.Reader) (Request, error) {
	var req Request
	if err := readFrame(r, &req); err != nil {
		return Request{}, err
	}
	return req, req.Check()
}

// WriteReply answers.
func WriteReply(w io.Writer, reply Reply) error { return writeFrame(w, reply) }

func writeFrame(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(data)), uint32(len(data)))
	if _, err := w.Write(append(frame, data...)); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > frameLimit {
		return fmt.Errorf("frame has %d bytes, at most %d are allowed", size, frameLimit)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("frame: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("frame: data after the JSON value")
	}
	return nil
}
