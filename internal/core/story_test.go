package core_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected output of the stories in testdata; read the difference")

// TestStories plays the transcripts in testdata. A transcript is a paragraph of intent and then
// scenes, with an empty line between. A scene is commands, one a line, a line "----", and all that
// they print. The commands are those of theatre.do.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { playStory(t, file) })
	}
}

func playStory(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	scenes := strings.Split(strings.TrimRight(string(content), "\n"), "\n\n")
	if !strings.HasPrefix(scenes[0], "# ") {
		t.Fatal("the story does not open with its intent, a paragraph that begins with #")
	}
	stage := newScenario()
	played := make([]string, len(scenes))
	for i, scene := range scenes {
		played[i] = scene
		if strings.HasPrefix(scene, "# ") {
			continue
		}
		commands, want, _ := strings.Cut(scene, "----")
		got := playScene(t, stage, commands)
		played[i] = strings.TrimRight(commands, "\n") + "\n----\n" + strings.TrimRight(got, "\n")
		if want = strings.Trim(want, "\n"); !*update && want != strings.TrimRight(got, "\n") {
			t.Errorf("scene %d\n%s\ngot:\n%s\nwant:\n%s\n", i, commands, got, want)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(played, "\n\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func playScene(t *testing.T, stage *scenario, commands string) string {
	t.Helper()
	stage.out.Reset()
	for command := range strings.Lines(commands) {
		command = strings.TrimSpace(command)
		if command == "" || strings.HasPrefix(command, "#") {
			continue
		}
		if err := stage.do(strings.Fields(command)); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
	return stage.out.String()
}

// setFields reads words such as "paused" and "max-unhealthy=40%".
func setFields(words []string, set func(key, value string) error) error {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		if err := set(key, value); err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	return nil
}
