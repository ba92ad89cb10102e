/* A program that marks its work with tracesmith.h. Compiled as C and as C++.
 *   train | threads | many | deep | unbalanced | fork */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracesmith/tracesmith.h"

static void train(void) {
  int step;
  tracesmith_metadata("model", "a \"small\" one");
  tracesmith_metadata("batch", "8");
  for (step = 0; step < 5; ++step) {
    tracesmith_step_begin(step);
    tracesmith_range_begin("load");
    tracesmith_range_begin("decode");
    tracesmith_range_end();
    tracesmith_range_end();
    tracesmith_counter("loss", 2.5 - step);
    tracesmith_step_end();
  }
}

static void* worker(void* name) {
  int i;
  for (i = 0; i < 100; ++i) {
    tracesmith_range_begin((const char*)name);
    tracesmith_range_begin("inner");
    tracesmith_range_end();
    tracesmith_range_end();
  }
  return NULL;
}

static void* one(void* name) {
  tracesmith_range_begin((const char*)name);
  tracesmith_range_end();
  return NULL;
}

static void threads(void) {
  static char names[6][32];
  pthread_t all[6];
  int i;
  for (i = 0; i < 6; ++i) {
    snprintf(names[i], sizeof names[i], "worker %d", i);
    pthread_create(&all[i], NULL, worker, names[i]);
  }
  for (i = 0; i < 6; ++i) pthread_join(all[i], NULL);
}

static void many(void) {
  static char name[] = "short-lived";
  int i;
  for (i = 0; i < 1500; ++i) {
    pthread_t t;
    pthread_create(&t, NULL, one, name);
    pthread_join(t, NULL);
  }
}

static void deep(void) {
  int i;
  for (i = 0; i < 100; ++i) {
    char name[32];
    snprintf(name, sizeof name, "level %d", i);
    tracesmith_range_begin(name);
  }
  for (i = 0; i < 100; ++i) tracesmith_range_end();
  tracesmith_range_begin("after");
  tracesmith_range_end();
}

static void unbalanced(void) {
  int i;
  for (i = 0; i < 3; ++i) tracesmith_range_end();
  tracesmith_step_end();
  tracesmith_range_begin("never ended");
  tracesmith_step_begin(1);
  tracesmith_step_begin(2); /* the first was not ended */
  tracesmith_step_end();
  tracesmith_step_end();
  tracesmith_range_begin("ended");
  tracesmith_range_end();
}

static void forked(void) {
  pid_t pid;
  tracesmith_range_begin("parent");
  fflush(stdout);
  pid = fork();
  if (pid == 0) {
    tracesmith_range_begin("child");
    tracesmith_range_end();
    tracesmith_counter("child", 1);
    _exit(0);
  }
  waitpid(pid, NULL, 0);
  tracesmith_range_end();
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "train";
  if (!strcmp(what, "train")) train();
  if (!strcmp(what, "threads")) threads();
  if (!strcmp(what, "many")) many();
  if (!strcmp(what, "deep")) deep();
  if (!strcmp(what, "unbalanced")) unbalanced();
  if (!strcmp(what, "fork")) forked();
  printf("probe %d\n", tracesmith_get() != NULL);
  return 0;
}
