package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// disk stores a journal's lines. A line is durable once Sync or Replace has returned; before that a
// power cut may take it, or a part of it.
type disk interface {
	io.Writer
	Sync() error
	Close() error
	// Name is for messages.
	Name() string
	// Read gives the content from its beginning.
	Read() (io.ReadCloser, error)
	// Truncate drops everything behind size.
	Truncate(size int64) error
	// Replace puts text in place of the whole content: all of it or nothing.
	Replace(text lines) error
}

// line is one line of the file. One of its fields is set.
type line struct {
	// Reserved ids and lower ids may have been issued.
	Reserved int64       `json:"reserved,omitempty"`
	Begun    *began      `json:"begun,omitempty"`
	Older    *checkpoint `json:"older,omitempty"`
	*Op
}

// began is a start of the load.
type began struct {
	At time.Time `json:"at"`
}

// checkpoint sums up the Ops before the file's first one.
type checkpoint struct {
	older
	IDs    IDs `json:"ids"`
	Starts int `json:"starts"`
}

type lines []line

func (l lines) WriteTo(w io.Writer) (int64, error) {
	var text bytes.Buffer
	encode := json.NewEncoder(&text)
	for _, one := range l {
		if err := encode.Encode(one); err != nil {
			return 0, fmt.Errorf("encode a line: %w", err)
		}
	}
	return text.WriteTo(w)
}

// lines are the lines of a file that holds only k.
func (k kept) lines() lines {
	before := checkpoint{older: k.older, IDs: k.acknowledged, Starts: k.starts}
	text := lines{{Older: &before}, {Reserved: k.reserved}}
	for _, op := range k.ops {
		text = append(text, line{Op: &op})
	}
	return text
}

// commit appends lines durably.
func commit(d disk, text lines) error {
	_, err := text.WriteTo(d)
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the journal %s: %w", d.Name(), err)
	}
	return nil
}

// maxLine bounds one line: a checkpoint of keepSpans spans.
const maxLine = 16 << 20

// recoverFrom reads a journal and cuts off a last line that was torn.
func recoverFrom(d disk) (kept, error) {
	var k kept
	in, err := d.Read()
	if err != nil {
		return k, fmt.Errorf("read the journal: %w", err)
	}
	defer func() { _ = in.Close() }()
	reader := bufio.NewReaderSize(in, 1<<16)
	size := int64(0)
	for number := 1; ; number++ {
		text, err := readLine(reader)
		if err == nil {
			if problem := k.read(text); problem != nil {
				if _, peek := reader.Peek(1); !errors.Is(peek, io.EOF) {
					return k, fmt.Errorf("journal %s, line %d: %w; only the last line may be damaged: move the file away to begin a new journal, which knows nothing of the writes so far", d.Name(), number, problem)
				}
				err = io.ErrUnexpectedEOF
			}
		}
		switch {
		case err == nil:
			size += int64(len(text))
		case errors.Is(err, io.EOF):
			return k, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			if err := d.Truncate(size); err != nil {
				return k, fmt.Errorf("drop the torn last line of the journal: %w", err)
			}
			return k, nil
		default:
			return k, fmt.Errorf("read the journal: %w", err)
		}
	}
}

// readLine reads to the next newline: io.EOF where nothing is left,
// io.ErrUnexpectedEOF where the newline is missing.
func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case err == nil:
			return text, nil
		case errors.Is(err, io.EOF) && len(text) > 0:
			return text, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return text, err
		case len(text) > maxLine:
			return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
	}
}

// read takes in one line.
func (k *kept) read(text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	switch {
	case l.Older != nil:
		k.older, k.acknowledged, k.starts = l.Older.older, l.Older.IDs, l.Older.Starts
	case l.Begun != nil:
		k.starts++
	case l.Reserved > 0:
		k.reserved = max(k.reserved, l.Reserved)
	case l.Op != nil && l.ID > 0:
		k.take([]Op{*l.Op}, l.ID)
	default:
		return errors.New("not a line of this journal")
	}
	return nil
}

// fileDisk is a disk on a real file.
type fileDisk struct {
	*os.File
	path string
}

func openFile(path string) (*fileDisk, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	// A new file is durable only with its folder.
	if err := syncFolder(path); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &fileDisk{file, path}, nil
}

func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func (d *fileDisk) Name() string { return d.path }

func (d *fileDisk) Read() (io.ReadCloser, error) { return os.Open(d.path) }

func (d *fileDisk) Replace(text lines) error {
	file, err := os.OpenFile(d.path+".new", os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = text.WriteTo(file)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(file.Name(), d.path)
	}
	if err == nil {
		err = syncFolder(d.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	old := d.File
	d.File = file
	return old.Close()
}
