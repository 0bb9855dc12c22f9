package window

import (
	"archive/zip"
	"bytes"
	_ "embed" // the table of time zones
	"fmt"
	"io"
	"time"
)

//go:embed zoneinfo.zip
var zoneinfo []byte

// maxZone bounds the name of a zone.
const maxZone = 64

// table is the directory of all zones. A decision asks for a few zones, and reading the directory costs more than that.
var table, errTable = zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))

// Zone returns the zone with a name of the IANA database, such as Europe/Berlin. Neither a file nor an environment
// variable of the machine has a part in it. Each call reads the zone again: keep the result for a pass.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "Local" || len(name) > maxZone {
		return nil, fmt.Errorf("%.64q is no time zone: write a name such as Europe/Berlin, or UTC", name)
	}
	if errTable != nil {
		return nil, fmt.Errorf("read the table of time zones: %w", errTable)
	}
	file, err := table.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no time zone: write a name such as Europe/Berlin, or UTC", name)
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("%q is no time zone: write a name such as Europe/Berlin, or UTC", name) // a folder, such as Europe
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("read time zone %s: %w", name, err)
	}
	return zone, nil
}
