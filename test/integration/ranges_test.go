package integration

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestRangesStandInTheSchemas: the definitions bound integers themselves. An older API server ignores the format, and
// would store a number that typed clients can't read.
func TestRangesStandInTheSchemas(t *testing.T) {
	t.Parallel()
	manifests, err := filepath.Glob(filepath.Join(cluster.Root(), "config", "crd", "*.yaml"))
	if err != nil {
		t.Fatalf("finding the definitions: %v", err)
	}
	bounded := 0
	for _, path := range manifests {
		definition := cluster.Manifest(t, filepath.Join("config", "crd", filepath.Base(path)))[0]
		walk(definition.Object, func(schema map[string]any) {
			if schema["format"] != "int32" {
				return
			}
			bounded++
			most, err := strconv.ParseFloat(fmt.Sprint(schema["maximum"]), 64)
			if err != nil || most > math.MaxInt32 {
				t.Errorf("%s: an int32 has the maximum %v: %v", definition.GetName(), schema["maximum"], schema["description"])
			}
		})
	}
	if bounded == 0 {
		t.Error("no definition has an int32")
	}
}

// walk calls visit for each object inside a value.
func walk(value any, visit func(map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(v)
		for _, part := range v {
			walk(part, visit)
		}
	case []any:
		for _, part := range v {
			walk(part, visit)
		}
	}
}
