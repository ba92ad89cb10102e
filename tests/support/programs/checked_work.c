/* Work that notices when somebody has meddled with it: `checked_work KIND`, until SIGTERM. Then it prints how much it has
 * checked, and "good", or "bad" and ends with 1. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop, bad;
static atomic_long checked, alarms;

static void onTerm(int number) {
  (void)number;
  stop = 1;
}
static void onAlarm(int number) {
  (void)number;
  ++alarms;
}

/* Four threads that do little but allocate; the first one waits for them. */
static void* allocate(void* argument) {
  enum { kBlocks = 64 };
  unsigned char* blocks[kBlocks] = {0};
  size_t sizes[kBlocks] = {0};
  uint64_t random = (uint64_t)(uintptr_t)argument * 0x9e3779b97f4a7c15u + 1;
  while (!stop) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const unsigned i = (unsigned)(random >> 33) % kBlocks;
    for (size_t k = 0; k < sizes[i]; k += 61)
      if (blocks[i][k] != (unsigned char)(i + sizes[i])) bad = 1;
    free(blocks[i]);
    sizes[i] = (size_t)(random >> 40) % 5000;
    blocks[i] = malloc(sizes[i] + 1);
    memset(blocks[i], (int)(unsigned char)(i + sizes[i]), sizes[i]);
    ++checked;
  }
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  return NULL;
}

#if defined(__x86_64__)
/* All general registers that a call of the kernel keeps, vector registers, and the bytes below the stack pointer. */
__attribute__((noinline)) static int keepsRegisters(long number, const void* a, long b) {
  static uint64_t after[8]; /* not below the stack pointer */
  __asm__ volatile(
      "movabs $0x1111111111111111, %%r12\n mov %%r12, -120(%%rsp)\n"
      "movabs $0x2222222222222222, %%r13\n movabs $0x3333333333333333, %%r14\n"
      "movabs $0x4444444444444444, %%r15\n movabs $0x5555555555555555, %%r8\n"
      "movq %%r12, %%xmm3\n movq %%r13, %%xmm15\n"
      "syscall\n"
      "mov %%r12, (%[out])\n mov %%r13, 8(%[out])\n mov %%r14, 16(%[out])\n mov %%r15, 24(%[out])\n"
      "mov %%r8, 32(%[out])\n movq %%xmm3, 40(%[out])\n movq %%xmm15, 48(%[out])\n mov -120(%%rsp), %%r12\n"
      "mov %%r12, 56(%[out])\n"
      : "+a"(number)
      : "D"(a), "S"(b), [out] "b"(after)
      : "rcx", "r11", "r8", "r12", "r13", "r14", "r15", "xmm3", "xmm15", "memory", "cc");
  const uint64_t one = 0x1111111111111111u, two = 0x2222222222222222u;
  return after[0] == one && after[1] == two && after[2] == 0x3333333333333333u && after[3] == 0x4444444444444444u &&
         after[4] == 0x5555555555555555u && after[5] == one && after[6] == two && after[7] == one;
}
#endif

/* A leaf that keeps its numbers below the stack pointer and in registers, and never calls the kernel. */
__attribute__((noinline)) static double work(uint64_t seed) {
  volatile double numbers[8];
  for (int i = 0; i < 8; ++i) numbers[i] = (double)((seed + (uint64_t)i) % 97);
  double sum = 0;
  for (int round = 0; round < 1000; ++round)
    for (int i = 0; i < 8; ++i) sum = sum * 0.5 + numbers[i] * (double)(round % 7);
  return sum;
}

int main(int argc, char** argv) {
  const char* kind = argc > 1 ? argv[1] : "";
  struct sigaction term = {0}, alarm_action = {0};
  term.sa_handler = onTerm;
  alarm_action.sa_handler = onAlarm;
  alarm_action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &term, NULL);
  sigaction(SIGUSR1, &alarm_action, NULL);
  if (write(1, "ready\n", 6) != 6) return 2;
  if (!strcmp(kind, "allocates")) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, allocate, (void*)i);
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  } else if (!strcmp(kind, "computes")) {
    const double expected = work(7);
    while (!stop) {
      if (work(7) != expected) bad = 1;
      ++checked;
    }
#if defined(__x86_64__)
  } else if (!strcmp(kind, "waits")) {
    while (!stop) {
      struct timespec moment = {0, 2000000};
      if (!keepsRegisters(35, &moment, 0)) bad = 1; /* nanosleep */
      ++checked;
    }
#endif
  } else if (!strcmp(kind, "sleeps")) {
    while (!stop) {
      struct timespec rest = {1000, 0};
      nanosleep(&rest, NULL);
      ++checked;
    }
  }
  printf("%ld checks, %ld signals: %s\n", (long)checked, (long)alarms, bad ? "bad" : "good");
  return bad;
}
