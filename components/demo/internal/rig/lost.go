package rig

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// LoseCVM deletes a CVM with its disk on the platform, past Cadre.
func (r *Rig) LoseCVM(ctx context.Context, vmUUID string) error {
	cloud, err := r.PlatformClient()
	if err != nil {
		return err
	}
	return cloud.Delete(ctx, vmUUID)
}

// Rows counts the load's rows in a database Slot's own copy, and says whether that is a
// standby's.
func (r *Rig) Rows(ctx context.Context, slot string) (rows int, standby bool, err error) {
	bin, err := r.postgresBin()
	if err != nil {
		return 0, false, err
	}
	out, err := r.Exec(ctx, r.PlatformName(slot), "postgres", filepath.Join(bin, "psql"), "-h", "/tmp", "-U", "postgres", "-d", "app", "-tAc",
		"SELECT count(*), pg_is_in_recovery() FROM writes")
	if err != nil {
		return 0, false, fmt.Errorf("count the rows of %s: %w", slot, err)
	}
	count, recovery, _ := strings.Cut(strings.TrimSpace(out), "|")
	if rows, err = strconv.Atoi(count); err != nil {
		return 0, false, fmt.Errorf("count the rows of %s: %q: %w", slot, tail(out, 200), err)
	}
	return rows, recovery == "t", nil
}

// PostgresVersions are the versions that a database Slot runs, by the word of its Patroni and of its PostgreSQL.
func (r *Rig) PostgresVersions(ctx context.Context, slot string) (patroni, postgres string, err error) {
	const ask = `import json, urllib.request
member = json.load(urllib.request.urlopen("http://127.0.0.1:8008/patroni"))
n = member["server_version"]
print(member["patroni"]["version"], "%d.%d" % (n // 10000, n % 10000))`
	out, err := r.Exec(ctx, r.PlatformName(slot), "postgres", "python3", "-c", ask)
	if err != nil {
		return "", "", fmt.Errorf("ask Patroni of %s: %w", slot, err)
	}
	patroni, postgres, _ = strings.Cut(strings.TrimSpace(out), " ")
	return patroni, postgres, nil
}
