package envoy

import (
	"bufio"
	"io"
	"log/slog"
	"strings"
	"time"
)

// lineFormat has Envoy write one line for each of its messages: level, part, text.
const lineFormat = "[%l][%n] %v"

const (
	// lineMost bounds one line in the log.
	lineMost = 512
	// linesAtOnce and lineEvery bound how many there are.
	linesAtOnce = 20
	lineEvery   = 2 * time.Second
)

// parseLine takes an Envoy's line apart. It has no private key in it afterwards.
func parseLine(line string) (level slog.Level, part, text string) {
	line, _, is := strings.Cut(line, secret)
	if is {
		line += "(cut)"
	}
	head, text, is := strings.Cut(line, "] ")
	name, part, ok := strings.Cut(strings.TrimPrefix(head, "["), "][")
	if !is || !ok {
		return slog.LevelWarn, "", line
	}
	switch name {
	case "error", "critical":
		level = slog.LevelError
	case "warning":
		level = slog.LevelWarn
	default:
		level = slog.LevelInfo
	}
	return level, part, text
}

// secret is the beginning of a private key: Envoy redacts the keys of a configuration that it
// rejects, but logs all of a configuration that it cannot parse.
const secret = "PRIVATE KEY"

// allowance bounds lines: linesAtOnce, and one more each lineEvery.
type allowance struct {
	used int
	// from is since when used counts.
	from time.Time
	// leftOut counts the lines dropped since the last allowed line.
	leftOut int
}

// take asks for one line; dropped is the number of lines dropped before it.
func (a *allowance) take(now time.Time) (dropped int, ok bool) {
	if back := int(now.Sub(a.from) / lineEvery); back > 0 {
		a.used, a.from = max(a.used-back, 0), now
	}
	if a.used >= linesAtOnce {
		a.leftOut++
		return 0, false
	}
	a.used++
	dropped, a.leftOut = a.leftOut, 0
	return dropped, true
}

// readLines calls take with each line of r, cut at lineMost, until r ends.
func readLines(r io.Reader, take func(string)) {
	in := bufio.NewReaderSize(r, lineMost)
	for {
		line, more, err := in.ReadLine()
		if err != nil {
			return
		}
		if len(line) > 0 {
			take(strings.ToValidUTF8(string(line), "?"))
		}
		for more && err == nil {
			_, more, err = in.ReadLine()
		}
	}
}
