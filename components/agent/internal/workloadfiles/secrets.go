package workloadfiles

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"cadre.dev/core/secret"
)

// Secret is one secret of the workload.
type Secret struct {
	Value secret.Value
	// Epoch grows with each rotation.
	Epoch uint32
	// Mode of the file; 0: as the folder's mesh group may read it. With a mode, UID
	// and GID own the file.
	Mode     fs.FileMode
	UID, GID uint32
}

const (
	secretsFolder = "secrets"
	// epochsFile has epochs and no values, so that a workload can watch for a rotation. It is
	// written after the secrets: a reader that sees a new epoch there finds the new value.
	epochsFile = "secret-epochs.json"
	// allowed are the bits that the file of a secret may have.
	allowed fs.FileMode = 0o660
)

// writeSecrets makes secrets/ hold exactly the given secrets.
func (f *Folder) writeSecrets(secrets map[string]Secret) error {
	if err := f.dir.same(secretsFolder, f.secrets.root); err != nil {
		return err
	}
	var errs []error
	epochs := map[string]uint32{}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		one := secrets[name]
		switch {
		case !fileName.MatchString(name):
			errs = append(errs, fmt.Errorf("secret %q: the name must match %s", name, fileName))
		case one.Mode&^allowed != 0:
			errs = append(errs, fmt.Errorf("secret %q: mode %#o lets others read it", name, one.Mode))
		default:
			errs = append(errs, f.put(f.secrets, name, one.Value.Reveal(), f.secretAccess(one)))
			epochs[name] = one.Epoch
		}
	}
	present, err := f.secrets.names()
	errs = append(errs, err)
	for _, name := range present {
		if _, wanted := secrets[name]; wanted {
			continue
		}
		// The file is a removed secret, or a leftover of an interrupted write.
		errs = append(errs, f.secrets.remove(name))
		delete(f.written, f.secrets.path+"/"+name)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	text, err := json.Marshal(epochs)
	if err != nil {
		return fmt.Errorf("encode epochs: %w", err)
	}
	return f.put(f.dir, epochsFile, append(text, '\n'), access{mode: 0o644, uid: -1, gid: -1})
}

func (f *Folder) secretAccess(one Secret) access {
	if one.Mode == 0 {
		return f.meshAccess()
	}
	return access{mode: one.Mode, uid: int(one.UID), gid: int(one.GID)}
}

// meshAccess lets root and the mesh group read.
func (f *Folder) meshAccess() access {
	if f.gid != 0 {
		return access{mode: 0o440, uid: -1, gid: f.gid}
	}
	return access{mode: 0o400, uid: -1, gid: -1}
}

// written identifies the last content of a file; the content itself is not kept.
type written struct {
	digest [sha256.Size]byte
	who    access
}
