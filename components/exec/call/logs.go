package call

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"

	"cadre.dev/exec/logring"
)

const (
	// LogSocketName is the name of the socket, in the shared folder, that gives the service's output.
	LogSocketName = "logs"
	// KeepLogsName is the name of the file with which the agent asks the service to keep its output.
	// The agent writes it before the service starts, where the measured compose text opens the logs.
	KeepLogsName = "keep-logs"
)

// ErrBusy reports that the service refused one more reader of its output, or that it ends.
var ErrBusy = errors.New("has too many readers of its output, or is ending")

// LogRequest asks for the output of a service.
type LogRequest struct {
	// Lines is how many of the last lines are wanted; 0: all that are kept.
	Lines int `json:"lines,omitempty"`
	// Follow asks for later output too, until the caller ends the connection.
	Follow bool `json:"follow,omitempty"`
}

// Logs gives take the output of the service that shares dir, in pieces of at most logring.Piece
// bytes. dropped is the number of bytes that were lost before data, since the reader was too slow.
// Logs returns nil at the end of the output, also when the container ends; otherwise take's error,
// or the cause of ctx. ErrNotThere: the service keeps no output now; ErrBusy is safe to retry.
func Logs(ctx context.Context, dir string, req LogRequest, take func(dropped uint64, data []byte) error) error {
	conn, err := dial(ctx, filepath.Join(dir, LogSocketName))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // read to its end, or given up
	if err := conn.SetDeadline(time.Now().Add(sendLimit)); err != nil {
		return err
	}
	piece := make([]byte, logring.Piece)
	err = writeFrame(conn, req)
	if err == nil {
		// The first piece is empty: the service has accepted this reader.
		_, _, err = readPiece(conn, piece)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return ErrBusy
	}
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	for {
		dropped, data, err := readPiece(conn, piece)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := take(dropped, data); err != nil {
			return err
		}
	}
}

// ReadLogRequest reads and checks one request for output.
func ReadLogRequest(r io.Reader) (LogRequest, error) {
	var req LogRequest
	if err := readFrame(r, &req); err != nil {
		return LogRequest{}, err
	}
	if req.Lines < 0 {
		return LogRequest{}, fmt.Errorf("lines: is %d, must not be negative", req.Lines)
	}
	return req, nil
}

// WritePiece sends a piece of output: its dropped bytes and its length, then its data.
func WritePiece(w io.Writer, dropped uint64, data []byte) error {
	head := binary.BigEndian.AppendUint64(make([]byte, 0, 12+len(data)), dropped)
	head = binary.BigEndian.AppendUint32(head, uint32(len(data)))
	_, err := w.Write(append(head, data...))
	return err
}

// readPiece reads one piece into space. The error is io.EOF only between two pieces.
func readPiece(r io.Reader, space []byte) (dropped uint64, data []byte, err error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[8:])
	if int64(size) > int64(len(space)) {
		return 0, nil, fmt.Errorf("a piece of output has %d bytes, at most %d are allowed", size, len(space))
	}
	if _, err := io.ReadFull(r, space[:size]); err != nil {
		return 0, nil, fmt.Errorf("read output: %w", errors.Join(io.ErrUnexpectedEOF, err))
	}
	return binary.BigEndian.Uint64(head[:8]), space[:size], nil
}
