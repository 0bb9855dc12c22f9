package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// SessionTag names a Session at both ends, among the Sessions of one Link. Both ends derive
// it from the keys of its TLS, without a message.
type SessionTag [8]byte

// maxEnding bounds the Sessions that one question can name; a Link has fewer.
const maxEnding = 32

// AppendRest appends the body of a KindRest stream to b: the Sessions that are to end. More
// tags than a Link can have are cut off, and the question is refused for it.
func AppendRest(b []byte, ending []SessionTag) []byte {
	ending = ending[:min(len(ending), maxEnding)]
	b = append(b, byte(len(ending)))
	for _, tag := range ending {
		b = append(b, tag[:]...)
	}
	return b
}

// ReadRest reads the body of a KindRest stream, each tag once. An empty list, or no body,
// means the Session of the question itself.
func ReadRest(r io.Reader) ([]SessionTag, error) {
	var count uint8
	if err := binary.Read(r, binary.BigEndian, &count); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read rest: %w", err)
	}
	if count > maxEnding {
		return nil, fmt.Errorf("%w: rest of %d sessions, want at most %d", ErrInvalid, count, maxEnding)
	}
	ending := make([]SessionTag, count)
	named := make(map[SessionTag]bool, count)
	for i := range ending {
		if _, err := io.ReadFull(r, ending[i][:]); err != nil {
			return nil, fmt.Errorf("read rest: %w", err)
		}
		if named[ending[i]] {
			return nil, fmt.Errorf("%w: rest names session %x twice", ErrInvalid, ending[i])
		}
		named[ending[i]] = true
	}
	return ending, nil
}
